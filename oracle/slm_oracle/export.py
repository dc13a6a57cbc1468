"""`export`: one golden file from a source directory and a cases file, in one mode."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from typing import Any

import numpy as np

from . import OracleError, cases, cbor, golden, receipt
from .observe import Collector, public_layers
from .source import Source

MODES = ("source", "reference", "truth")
SMALL_VOCABULARY = 4096


@dataclasses.dataclass(frozen=True)
class Options:
    """What of the run is kept. All of it stands in the receipt."""

    taps: str = "public"  # all layers; public: first, middle, last; none: logits and text only
    rows: int = 0  # last positions kept of each case; 0: all
    layer_cases: int = 0  # cases that keep the stages inside the layers, from the first on; 0: all
    top_k: int = 64
    logit_columns: int = 0  # of vocabularies above 4096; 0: all
    attach_bytes: int = 0  # an effective tokenizer above this size is named by its hash alone; 0: no bound
    threads: int = 1

    @staticmethod
    def bounded(**others: Any) -> "Options":
        """The form of public vectors (GLD-05)."""
        return Options(**{"rows": 4, "logit_columns": 1024, "attach_bytes": 65536, **others})

    def record(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class ModelRun:
    """The model of one mode: what export asks of it."""

    def __init__(self, source: Source, mode: str, threads: int) -> None:
        from .reference import Reference, configure_framework

        configure_framework(threads)
        self.mode = mode
        self.reference = Reference(source, "source" if mode == "source" else "reference")
        self.truth = None
        self.dtype = self.reference.dtype
        config = self.reference.config
        self.n_layers, self.vocab = config.num_hidden_layers, config.vocab_size
        self.max_positions = config.max_position_embeddings
        if mode == "truth":
            from .truth import Truth

            self.truth = Truth(source)
            self.dtype = "f64"
            _same_parameters(self.truth.parameters, self.reference)

    def observe(self, ids: list[int], collector: Collector, options: Options, columns: int) -> None:
        if self.truth is not None:
            logits: Any = self.truth.forward(ids, self.truth.new_cache(), collector)
        else:
            logits = self.reference.observe(ids, collector)
        collector.logits(logits, options.top_k, columns)

    def generate(self, ids: list[int], count: int, eos: list[int]) -> tuple[list[int], list[np.ndarray]]:
        if self.truth is None:
            return self.reference.generate(ids, count, eos)
        tokens: list[int] = []
        steps: list[np.ndarray] = []
        cache, feed = self.truth.new_cache(), ids
        while len(tokens) < count and not (tokens and tokens[-1] in eos):
            row = self.truth.forward(feed, cache, lambda *_: None, last_only=True)[-1]
            tokens.append(int(np.argmax(row)))
            steps.append(row)
            feed = tokens[-1:]
        return tokens, steps

    def tensors(self, source: Source) -> list[dict[str, Any]]:
        if self.truth is None:
            return self.reference.tensor_hashes()
        return [{"name": name, "dtype": tensor.dtype, "shape": tensor.shape, "sha256": tensor.sha256()}
                for name, tensor in sorted(source.tensors().items())]

    def frequencies(self) -> np.ndarray:
        """Of the artifact for truth, else those that the framework uses."""
        if self.truth is not None:
            return self.truth.inv_freq
        return self.reference.model.model.rotary_emb.inv_freq.float().numpy()

    def framework(self, threads: int) -> dict[str, Any]:
        record = receipt.framework(threads, self.dtype)
        if self.truth is not None:
            blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
            record["blas"] = f"{blas['name']} {blas['version']}"
        return record


def _same_parameters(ours: Any, reference: Any) -> None:
    """The truth forward reads config.json by itself; what it read must be what the pinned source built."""
    config = reference.config
    pinned = {"vocab_size": config.vocab_size, "hidden_size": config.hidden_size, "n_layers": config.num_hidden_layers,
              "n_heads": config.num_attention_heads, "n_kv_heads": config.num_key_value_heads,
              "head_dim": config.head_dim, "activation": config.hidden_act, "norm_eps": config.rms_norm_eps,
              "max_positions": config.max_position_embeddings, "tied": config.tie_word_embeddings}
    for name, value in pinned.items():
        if getattr(ours, name) != value:
            raise OracleError(f"{name}: the truth forward read {getattr(ours, name)}, the pinned source built {value}")
    for key, value in config.rope_parameters.items():
        if ours.rope.get(key) != value:
            raise OracleError(f"rope {key}: the truth forward read {ours.rope.get(key)}, the pinned source built {value}")


def _gap(row: np.ndarray) -> float:
    best = np.partition(row.astype(np.float64), -2)[-2:]
    return float(best[1] - best[0])


def _generation(run: ModelRun, tokens: Any, case: cases.Case, ids: list[int]) -> dict[str, Any]:
    room = run.max_positions - len(ids)
    count = min(case.max_new_tokens, room)
    eos = run.reference.eos if case.stop_at_eos else []
    new, steps = run.generate(ids, count, eos) if count else ([], [])
    if new and new[-1] in eos:
        reason = "eos"
    else:
        reason = "context" if count < case.max_new_tokens else "length"
    return {"tokens": struct.pack(f"<{len(new)}I", *new), "gaps": struct.pack(f"<{len(new)}d", *map(_gap, steps)),
            "text": tokens.decode(new) if tokens.has_tokenizer else b"", "stop_reason": reason}


def prompt_ids(case: cases.Case, tokens: Any, record: dict[str, Any]) -> list[int]:
    """Ids that the model sees; fills rendered text and tokenizations (L1, L2)."""
    record["tokenizations"] = []
    if case.kind == "token_ids":
        return case.ids
    if not tokens.has_tokenizer:
        raise OracleError(f"case {case.id} has text, and the source has no tokenizer.json")
    text, of, special = case.text, "input", case.add_special_tokens
    if case.kind == "messages":
        text, of, special = tokens.render(case), "rendered", False
        record["rendered"] = text.encode("utf-8")
        if (owners := tokens.owners(case, text)) is not None:
            record["ownership"] = owners
    for reference in ("published", "effective"):
        record["tokenizations"].append(tokens.tokenization(reference, text, of, special))
    ids = record["tokenizations"][0]["ids"]
    return list(struct.unpack(f"<{len(ids) // 4}I", ids))


def _case(run: ModelRun, tokens: Any, writer: golden.Writer, case: cases.Case, options: Options, inside: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "case_id": case.id, "case_class": case.case_class, "input": {"kind": case.kind, "data": case.data},
        "mask": "causal", "max_new_tokens": case.max_new_tokens, "add_generation_prompt": case.add_generation_prompt}
    ids = prompt_ids(case, tokens, record)
    if not 1 <= len(ids) <= run.max_positions:
        raise OracleError(f"case {case.id}: {len(ids)} ids, the model takes 1 to {run.max_positions}")
    if max(ids) >= run.vocab:
        raise OracleError(f"case {case.id}: id {max(ids)} is outside the vocabulary of {run.vocab}")
    layers = list(range(run.n_layers)) if options.taps == "all" else public_layers(run.n_layers)
    collector = Collector(writer, len(ids), options.rows, layers if inside and options.taps != "none" else [])
    columns = options.logit_columns if run.vocab > SMALL_VOCABULARY else 0
    run.observe(ids, collector, options, columns)
    record.update(ids=struct.pack(f"<{len(ids)}I", *ids), positions={"begin": 0, "count": len(ids)},
                  observations=collector.observations)
    if case.max_new_tokens:
        generation = _generation(run, tokens, case, ids)
        record["generation"] = generation
        raw = {key: generation[key] for key in ("stop_reason", "text", "tokens")}
        record["raw_output_commitment"] = golden.sha256(cbor.encode(raw))
    return _sealed(record) if case.case_class == cases.CLASSES[1] else record


def _sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A private case publishes commitments only (GLD-02)."""
    kind, data = record["input"]["kind"], record["input"]["data"]
    commitment = golden.sha256(data)
    kept = {key: record[key] for key in ("case_id", "case_class", "mask", "max_new_tokens", "add_generation_prompt")}
    kept.update(input={"kind": kind, "commitment": commitment}, ids=b"", positions={"begin": 0, "count": 0},
                tokenizations=[], observations=[])
    if "raw_output_commitment" in record:
        kept["raw_output_commitment"] = record["raw_output_commitment"]
    return kept


def export(directory: str, cases_file: str, mode: str, out: str, options: Options,
           repeatability: dict[str, Any] | None) -> None:
    if mode not in MODES:
        raise OracleError(f"unknown mode {mode}")
    with open(cases_file, "rb") as file:
        cases_data = file.read()
    suite = cases.parse(cases_data)
    source = Source(directory)
    run = ModelRun(source, mode, options.threads)
    from .config import effective_config
    from .tokens import Tokens

    tokens = Tokens(source)
    generator = receipt.generator(mode, options.record(), golden.sha256(cases_data), source.identity())
    generator["framework"] = run.framework(options.threads)
    if repeatability is not None:
        generator["repeatability"] = repeatability
    fields = effective_config(source, run.reference)
    identities = {"source": source.identity(),
                  "config": hashlib.sha256(cbor.encode([[field["name"], field["value"]] for field in fields])).digest()}
    writer = golden.Writer(out)
    try:
        frequencies = run.frequencies()
        model_observations = [{
            "name": "rope.inv_freq", "role": "rope.inv_freq", "dtype": "f32", "layout": "row_major",
            "shape": [len(frequencies)], "blob": writer.blob(frequencies.astype("<f4").tobytes())}]
        attachments, findings = [], {}
        if tokens.has_tokenizer:
            published = source.read("tokenizer.json")
            identities["tokenizer"] = golden.sha256(published)
            if not options.attach_bytes or len(tokens.effective_json) <= options.attach_bytes:
                attachments.append({"name": "effective-tokenizer.json", "media_type": "application/json",
                                    "blob": writer.blob(tokens.effective_json)})
            if tokens.template is not None:
                identities["template"] = golden.sha256(tokens.template.encode("utf-8"))
        records = []
        texts: list[tuple[str, bool]] = []
        for index, case in enumerate(suite):
            inside = not options.layer_cases or index < options.layer_cases
            records.append(_case(run, tokens, writer, case, options, inside))
            if case.kind == "utf8" and case.case_class == cases.CLASSES[0]:
                texts.append((case.text, case.add_special_tokens))
            elif "rendered" in records[-1]:
                texts.append((records[-1]["rendered"].decode("utf-8"), False))
        if tokens.has_tokenizer:
            findings = {"published_sha256": identities["tokenizer"],
                        "effective_sha256": golden.sha256(tokens.effective_json), **tokens.findings(texts)}
        writer.finish({
            "mode": mode, "identities": identities, "generator": generator, "source_files": source.files,
            "effective_config": fields, "tensors": run.tensors(source), "tokenizer": findings,
            "model_observations": model_observations, "attachments": attachments, "cases": records})
    except BaseException:
        writer.abandon()
        raise
