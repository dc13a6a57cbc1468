/* The C ABI of slm, version 1: native and WebAssembly (docs/spec/capi.md).
 *
 * Calls return 0, or the number of an error (docs/spec/errors.md). Either way the answer lies in the
 * context's result buffer until the next call with that context: JSON in UTF-8 unless a call says
 * otherwise; after an error {"error":{"code","number","byte_offset","field","message", ...}}. A call
 * that was refused has changed nothing unless it says so.
 *
 * Handles are pointers that only this library reads. A context knows what was made with it: a handle that is
 * null, freed, of another kind or of another context is refused with USAGE; so is a null context. Objects
 * keep what they stand on alive; the order of freeing does not matter. Text is bytes with a size, U+0000 is
 * ordinary text, nothing is terminated by it.
 *
 * The WebAssembly build is three modules over this header, each with what stands before "opening an
 * artifact": slm.wasm has the sections from there to "observing", which run models on ids; slm-text.wasm has
 * "text", which makes ids of texts and texts of ids; slm-evidence.wasm has "evidence" and "templates". They
 * share no memory: what goes from one to another goes through the caller, as the calls say. A native build
 * holds all.
 *
 * A context and everything made with it is used by one thread at a time. Texts and buffers that are given to
 * a call need to live during the call only.
 */
#ifndef SLM_CAPI_SLM_H_
#define SLM_CAPI_SLM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLM_ABI_VERSION 2

typedef struct slm_context slm_context;         /* result buffer, known handles */
typedef struct slm_artifact slm_artifact;       /* a .slm while it is filled and checked */
typedef struct slm_model slm_model;             /* an opened .slm: its weights */
typedef struct slm_text slm_text;               /* an opened .slm: tokenizer, template */
typedef struct slm_session slm_session;         /* one sequence: its key/value cache */
typedef struct slm_run slm_run;                 /* one generation, step by step: its ids */
typedef struct slm_text_run slm_text_run;       /* the same generation: its text */
typedef struct slm_observation slm_observation; /* one suite of cases, case by case */
typedef struct slm_objects slm_objects;         /* nodes and blobs in memory, by id */

/* SLM_ABI_VERSION of the library. */
uint32_t slm_abi_version(void);

/* Null where there is no memory. Freeing null is allowed. Freeing a context frees everything made with it. */
slm_context* slm_context_new(void);
void slm_context_free(slm_context* context);

/* The answer of the last call. Valid until the next call with this context. */
const uint8_t* slm_result_data(const slm_context* context);
size_t slm_result_size(const slm_context* context);

/* Memory for a caller that has none of its own (WebAssembly). Null where there is none. */
void* slm_alloc(size_t size);
void slm_free(void* memory);

/* Three words about the allocation that failed last: bytes asked for, bytes in use, bytes at most (0: not
 * known). All 0 while none has failed. In WebAssembly a call that runs out of memory in its middle traps;
 * the host then reads this and drops the module. */
const uint64_t* slm_memory_fault(void);

/* SHA-256 of `size` bytes, 32 bytes at `out`. */
void slm_sha256(const uint8_t* data, size_t size, uint8_t* out);

/* ---- opening an artifact ----------------------------------------------------------------------------
 * From the first 192 bytes to a model, without a byte that was not hashed:
 *   slm_artifact_new     the header is checked, memory for the whole file is allocated
 *   (the caller writes the file's first head_size bytes to slm_artifact_bytes)
 *   slm_artifact_head    manifest and chunk table are checked against the header's hashes
 *   (the caller writes chunk after chunk, in any order)
 *   slm_artifact_chunk   each chunk is checked against the table
 *   slm_model_open       all chunks were; the weights are opened
 */

/* `header`: at least 192 bytes, or the whole file where it has fewer. `file_size`: as the source states it;
 * UINT64_MAX where it does not. Answer
 * {"root","file_size","head_size","chunk_size","n_chunks","table_offset"}. Errors: those of a header
 * (SLM-MAGIC, SLM-SIZE, ...); MEMORY with the sizes. */
int32_t slm_artifact_new(slm_context* context, const uint8_t* header, size_t size, uint64_t file_size,
                         slm_artifact** out);
/* Where the file's bytes go: file_size bytes. Null for an unknown handle. In WebAssembly growing memory moves
 * the view of a host, never the bytes. */
uint8_t* slm_artifact_bytes(slm_context* context, slm_artifact* artifact);
/* Answer {"root"}. Errors: SLM-MANIFEST, SLM-TABLE, SLM-PAD, those of the manifest. */
int32_t slm_artifact_head(slm_context* context, slm_artifact* artifact);
/* Checks chunk `index`. `sha256`: the chunk's hash as the caller computed it over the bytes at
 * slm_artifact_bytes (32 bytes), or null: it is computed here. Errors: SLM-CHUNK with the chunk in `field`
 * and its first byte in `byte_offset`; USAGE before slm_artifact_head, or without such a chunk. The answer is
 * empty. */
int32_t slm_artifact_chunk(slm_context* context, slm_artifact* artifact, uint32_t index,
                           const uint8_t* sha256);
void slm_artifact_free(slm_context* context, slm_artifact* artifact);

/* Takes the artifact, whose handle is gone then. Answer {"artifact","family","vocab_size","max_positions",
 * "n_layers","hidden_size","n_heads","n_kv_heads","head_dim","eos_token_ids","tokenizer":bool,"template":bool,
 * "license","observations":[names]}. Errors: USAGE while a chunk is not checked; those of opening a model. */
int32_t slm_model_open(slm_context* context, slm_artifact* artifact, slm_model** out);
void slm_model_free(slm_context* context, slm_model* model);
/* Answer: the artifact's first bytes, from its header to the end of its last text, for slm_text_open. */
int32_t slm_model_texts(slm_context* context, slm_model* model);

/* ---- generating ------------------------------------------------------------------------------------- */

/* A sequence of at most `max_positions`; 0: as many as the artifact allows. Answer {"max_positions"}. Errors:
 * CTX-LENGTH, MEMORY with the sizes. */
int32_t slm_session_new(slm_context* context, slm_model* model, uint32_t max_positions, slm_session** out);
void slm_session_free(slm_context* context, slm_session* session);

/* A record of `slm run --batch`. `prompt`: what slm_text_run_new answered to it, whose "prompt_ids" are
 * taken, and are the record's where it has ids; may be null there. The session is cut back to the prefix of
 * ids that it shares with the prompt; no bit depends on it. One run of a session at a time: an earlier one
 * that is not finished is over. Stop strings are not looked for here: see slm_run_stop. Answer
 * {"n_prompt","n_fed"}. */
int32_t slm_run_new(slm_context* context, slm_session* session, const uint8_t* record, size_t size,
                    const uint8_t* prompt, size_t prompt_size, slm_run** out);
/* Feeds at most `count` further ids of the prompt; 0: all. No bit depends on it. Answer {"n_fed","n_prompt",
 * "done"}; done: no token follows. */
int32_t slm_run_prefill(slm_context* context, slm_run* run, uint32_t count);
/* Chooses the next token. Answer {"id","done"; "trace" where the record asks for it}. USAGE before the prompt
 * is fed, or when done. */
int32_t slm_run_next(slm_context* context, slm_run* run);
/* The last token completed a stop string (slm_text_run_push says "stopped"): no token follows, also where one
 * was the last anyway. Answer {"done"}. USAGE where the record has no stop string, or before a token. */
int32_t slm_run_stop(slm_context* context, slm_run* run);
/* The `k` likeliest tokens at the last step (before it: after the prompt), by logit descending, then id.
 * Answer
 * {"ids","logits","probabilities","margin"}: probabilities among all tokens at temperature 1, in binary64,
 * for display; margin is the difference of the two largest logits. */
int32_t slm_run_top(slm_context* context, slm_run* run, uint32_t k);
/* Ends the run; its handle is gone. Answer: the members of `slm run --batch` that are no text, and
 * "warnings". stop_reason is "cancelled" for a run that was not done. */
int32_t slm_run_finish(slm_context* context, slm_run* run);
void slm_run_free(slm_context* context, slm_run* run);

/* ---- observing -------------------------------------------------------------------------------------- */

/* {"abi","backend":{"name","kernel","profile","threads","id"}}: `name`, in UTF-8, is what the caller calls
 * this backend, e.g. "wasm-scalar@chromium"; `id` is the id of the backend-profile node that these make. */
int32_t slm_identity(slm_context* context, const uint8_t* name, size_t name_size);

/* Begins to run a cases file (docs/spec/cases.md). `options`: {"backend": name, "taps": "all" or [names],
 * "top_k", "prefill_chunk"}, all but backend optional. `texts`: what slm_text_cases answered for the same
 * file. `like`: a container whose arrays and slices are kept, or null. Answer {"total"}: cases. Errors: those
 * of cases and containers, RUN-TAP, MEMORY. */
int32_t slm_observation_new(slm_context* context, slm_model* model, const uint8_t* options,
                            size_t options_size, const uint8_t* cases, size_t cases_size,
                            const uint8_t* texts, size_t texts_size, const uint8_t* like, size_t like_size,
                            slm_observation** out);
/* Runs the next case. Answer {"done","total"; "ids" where it generates and the artifact has a tokenizer}.
 * Where there are ids, slm_observation_text comes before any other call. USAGE when every case has run; after
 * another error the handle is gone. */
int32_t slm_observation_next(slm_context* context, slm_observation* observation);
/* The bytes that these ids say: those of slm_detokenize with mode "visible". The answer is empty. */
int32_t slm_observation_text(slm_context* context, slm_observation* observation, const uint8_t* text,
                             size_t size);
/* Answer: the golden container's bytes, those of `slm observe`; the handle is gone. USAGE before every case
 * has run. */
int32_t slm_observation_finish(slm_context* context, slm_observation* observation);
void slm_observation_free(slm_context* context, slm_observation* observation);

/* ---- text ------------------------------------------------------------------------------------------- */

/* `bytes`: what slm_model_texts answered. Header, manifest and each text that is read are hashed again here.
 * Answer
 * {"artifact": its root,"tokenizer": bool,"template": bool}: whether it has them. Errors: those of opening an
 * artifact, tokenizers and templates; SLM-BLOB-HASH. */
int32_t slm_text_open(slm_context* context, const uint8_t* bytes, size_t size, slm_text** out);
void slm_text_free(slm_context* context, slm_text* text);

/* Records: one JSON object in, one out, as `slm tokenize|detokenize|render --batch`. */
int32_t slm_tokenize(slm_context* context, slm_text* text, const uint8_t* record, size_t size);
int32_t slm_detokenize(slm_context* context, slm_text* text, const uint8_t* record, size_t size);
/* `program`: what slm_template_convert made of the record's "template", where it has one; else null.
 * UNSUPPORTED for a template without its program. */
int32_t slm_render(slm_context* context, slm_text* text, const uint8_t* record, size_t size,
                   const uint8_t* program, size_t program_size);

/* A record of `slm run --batch`. Answer {"prompt_ids"; where there is text "text","offsets"; for messages
 * "rendered": as render answers; "warnings": of the prompt}. The warnings of a whole run are these, those of
 * slm_run_finish, those of slm_text_run_finish. */
int32_t slm_text_run_new(slm_context* context, slm_text* text, const uint8_t* record, size_t size,
                         slm_text_run** out);
/* The id that slm_run_next chose. Answer {"bytes": base64 of what it made visible; "text" where these are
 * well-formed; "stopped": whether a stop string is complete}. Error: TOK-UNKNOWN-ID. */
int32_t slm_text_run_push(slm_context* context, slm_text_run* run, uint32_t id);
/* Ends it; its handle is gone. Answer: the members of `slm run --batch` that are text, with "tail" (base64 of
 * the visible bytes that were held back) and "warnings". */
int32_t slm_text_run_finish(slm_context* context, slm_text_run* run);
void slm_text_run_free(slm_context* context, slm_text_run* run);

/* What slm_observation_new needs of a cases file. Answer {"artifact": root,"cases_sha256": of the
 * file,"cases": [one for each]}, for it alone. Errors: those of cases, tokenizers and templates, with the
 * case. */
int32_t slm_text_cases(slm_context* context, slm_text* text, const uint8_t* cases, size_t size);

/* ---- evidence: comparing and verifying, from objects in memory --------------------------------------- */

/* An empty set of objects. The answer is empty. */
int32_t slm_objects_new(slm_context* context, slm_objects** out);
void slm_objects_free(slm_context* context, slm_objects* objects);
/* Keeps a copy of a blob (`kind` 0) or of a node's preimage (1). Answer {"id"}: SHA-256 of the bytes. Who
 * gives an object says nothing of its truth: whatever reads it hashes it again. */
int32_t slm_objects_add(slm_context* context, slm_objects* objects, uint32_t kind, const uint8_t* data,
                        size_t size);

/* Adds all objects of a bundle (docs/spec/promotion.md, 6). Answer {"receipt","nodes","blobs"}: what it is
 * the bundle of, and how many objects it holds. Errors: the CBOR codes, GRAPH-SCHEMA. */
int32_t slm_objects_read(slm_context* context, slm_objects* objects, const uint8_t* bundle, size_t size);
/* `request`: {"receipt": id} and optionally {"base": id}, a node whose reader has everything below it.
 * Answer: the bytes of a bundle of what the receipt reaches, less what base does. Errors: NOT-FOUND,
 * GRAPH-MISSING-CHILD, FSCK-HASH. */
int32_t slm_objects_write(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size);
/* The bytes of one object; `id`: 32 bytes. Errors: NOT-FOUND. */
int32_t slm_objects_get(slm_context* context, slm_objects* objects, uint32_t kind, const uint8_t* id);
/* What a promotion names, nothing of it recomputed. `request`: {"receipt": id}. Answer {"backend","source":
 * {"name","revision"},"artifact":{"root","sha256"},"cases","n_cases","policy","observation": ids of blobs,
 * "evidence":[{"mode","blob"}],"module","text_module": or null,"engine": what the observation says of it, or
 * null}. */
int32_t slm_receipt_parts(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size);

/* Writes a promotion by another backend: artifact, suite, evidence and policy are those of the promotion
 * `base`. `request`: {"base": id,"candidate": id of the container's blob,"made_by":{"build": what
 * tools/build_info.py wrote,"identity": what the package's identity() says}}. Its objects are added; answer
 * {"receipt","holds","comparison": as slm_compare}. Errors: those of promote. */
int32_t slm_promote(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size);

/* Compares containers that are among the objects' blobs. `request`: {"references":[ids],"candidate": id} and
 * optionally "policy": id of a policy's blob; without one the shipped policy for this comparison. One
 * reference may be of any mode, a candidate too (then every bit counts); several: one of each mode of the
 * oracle. Answer: that of `slm compare --json`. Errors: those of containers, policies and Compare. */
int32_t slm_compare(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size);

/* Verifies a receipt from the objects alone: everything is hashed again, every verdict recomputed. `request`:
 * {"receipt": id}. Answer: that of `slm verify --json`, with the first 1,000 problems at most. A claim that
 * fails is part of the answer, not an error. Errors: NOT-FOUND, NODE-TYPE for what is no receipt. */
int32_t slm_verify(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size);

/* ---- templates -------------------------------------------------------------------------------------- */

/* Converts a chat template's source in UTF-8 (docs/spec/template-ir.md). Answer: the program's bytes, for
 * slm_render. Errors: TPL-SYNTAX, TPL-FORBIDDEN, TPL-BOUND, UTF8, with "stage", "line" and "column". In a
 * browser the module is the sandbox; a native caller that does not trust the source calls this in a process
 * of its own. */
int32_t slm_template_convert(slm_context* context, const uint8_t* source, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* SLM_CAPI_SLM_H_ */
