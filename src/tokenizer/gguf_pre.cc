#include "tokenizer/gguf_pre.h"

#include <algorithm>
#include <string>

namespace slm::tokenizer {
namespace {

#define SLM_CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SLM_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
#define SLM_WORDS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SLM_OTHERS R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define SLM_PUNCTUATION R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
// Words whose case changes once: letters that are not lower case in ASCII, then ones that are not upper case.
#define SLM_CASED_UPPER R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+)"
#define SLM_CASED_LOWER R"([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*)"
#define SLM_O200K_TAIL R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define SLM_BLOOM \
  " ?[^(\\s|.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C)]+"
#define SLM_CJK "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"

constexpr const char* kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", SLM_GPT2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
constexpr const char* kGpt2[] = {SLM_GPT2};
constexpr const char* kLlama3[] = {SLM_CONTRACTIONS "|" SLM_WORDS R"(|\p{N}{1,3}|)" SLM_OTHERS};
constexpr const char* kQwen2[] = {SLM_CONTRACTIONS "|" SLM_WORDS R"(|\p{N}|)" SLM_OTHERS};
constexpr const char* kQwen35[] = {SLM_CONTRACTIONS
                                   R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
                                   R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kDeepseekCoder[] = {
    "[\\r\\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
    "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}&&[^\\s]]+", R"(\p{N})"};
// The reference's \p{S} has no U+007E.
#define SLM_SYMBOLS R"([\p{S}&&[^~]])"
constexpr const char* kDeepseekV3[] = {R"(\p{N}{1,3})", SLM_CJK,
                                       SLM_PUNCTUATION R"(|[^\r\n\p{L}\p{P})" SLM_SYMBOLS
                                                       R"(]?[\p{L}\p{M}]+| ?[\p{P})" SLM_SYMBOLS
                                                       R"(]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", SLM_GPT2, "[0-9][0-9][0-9]"};
constexpr const char* kStarcoder[] = {R"(\p{N})", SLM_GPT2};
constexpr const char* kBloom[] = {SLM_BLOOM};
constexpr const char* kViking[] = {SLM_BLOOM, R"(\p{N})"};
constexpr const char* kTekken[] = {SLM_CASED_UPPER "|" SLM_CASED_LOWER R"(|\p{N}|)" SLM_O200K_TAIL};
constexpr const char* kGpt4o[] = {SLM_CASED_UPPER SLM_CONTRACTIONS "?|" SLM_CASED_LOWER SLM_CONTRACTIONS
                                                                   R"(?|\p{N}{1,3}|)" SLM_O200K_TAIL};
constexpr const char* kChameleon[] = {"<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                                      R"(([\t\n]|    |  ))",     R"(\p{N})",
                                      R"([\p{P}!-/:-@\[-`{-~])", SLM_GPT2};
constexpr const char* kBailing[] = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" SLM_WORDS
                                    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr const char* kSeedCoder[] = {
    SLM_CONTRACTIONS "|" SLM_WORDS R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr const char* kDefaultNames[] = {"default", ""};
constexpr const char* kGpt2Names[] = {"gpt-2",       "phi-2",      "jina-es", "jina-de", "gigachat",
                                      "jina-v2-es",  "jina-v2-de", "a.x-4.0", "mellum",  "exaone4",
                                      "modern-bert", "mpt",        "olmo",    "jais"};
constexpr const char* kGpt2PlainNames[] = {"trillion", "granite-docling"};
constexpr const char* kRobertaNames[] = {"jina-v1-en", "jina-v2-code", "roberta-bpe"};
constexpr const char* kLlama3Names[] = {"llama3",  "llama-v3", "llama-bpe", "falcon3",     "falcon-h1",
                                        "pixtral", "midm-2.0", "lfm2",      "jina-v5-nano"};
constexpr const char* kDbrxNames[] = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr const char* kQwen2Names[] = {"qwen2",   "deepseek-r1-qwen", "kormo", "f2llmv2",
                                       "hunyuan", "solar-open",       "grok-2"};
constexpr const char* kStablelmNames[] = {"stablelm2", "megrez"};
constexpr const char* kQwen35Names[] = {"qwen35"};
constexpr const char* kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr const char* kDeepseekV3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
constexpr const char* kFalconNames[] = {"falcon"};
constexpr const char* kStarcoderNames[] = {"starcoder", "refact", "codeshell", "exaone", "minerva-7b"};
constexpr const char* kSmollmNames[] = {"smollm", "command-r"};
constexpr const char* kBloomNames[] = {"bloom", "gpt3-finnish"};
constexpr const char* kPoroNames[] = {"poro-chat"};
constexpr const char* kVikingNames[] = {"viking"};
constexpr const char* kTekkenNames[] = {"tekken"};
constexpr const char* kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr const char* kChameleonNames[] = {"chameleon"};
constexpr const char* kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr const char* kSeedCoderNames[] = {"seed-coder"};

constexpr GgufPre kPres[] = {
    {.names = kDefaultNames, .patterns = kDefault},
    {.names = kGpt2Names, .patterns = kGpt2},
    {.names = kGpt2PlainNames, .patterns = kGpt2, .clean_spaces = false},
    {.names = kRobertaNames, .patterns = kGpt2, .adds_sep = true},
    {.names = kLlama3Names, .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.names = kDbrxNames, .patterns = kLlama3},
    {.names = kQwen2Names, .patterns = kQwen2, .clean_spaces = false},
    {.names = kStablelmNames, .patterns = kQwen2},
    {.names = kQwen35Names, .patterns = kQwen35, .clean_spaces = false},
    {.names = kDeepseekCoderNames, .patterns = kDeepseekCoder, .clean_spaces = false},
    {.names = kDeepseekV3Names, .patterns = kDeepseekV3, .clean_spaces = false},
    {.names = kFalconNames, .patterns = kFalcon},
    {.names = kStarcoderNames, .patterns = kStarcoder},
    {.names = kSmollmNames, .patterns = kStarcoder, .clean_spaces = false},
    {.names = kBloomNames, .patterns = kBloom},
    {.names = kPoroNames, .patterns = kBloom, .clean_spaces = false},
    {.names = kVikingNames, .patterns = kViking, .clean_spaces = false},
    {.names = kTekkenNames,
     .patterns = kTekken,
     .ignore_merges = true,
     .add_bos = true,
     .clean_spaces = false},
    {.names = kGpt4oNames, .patterns = kGpt4o, .clean_spaces = false},
    {.names = kChameleonNames, .patterns = kChameleon, .add_bos = true, .clean_spaces = false},
    {.names = kBailingNames, .patterns = kBailing, .clean_spaces = false},
    {.names = kSeedCoderNames, .patterns = kSeedCoder, .clean_spaces = false},
};

// Known to the reference: patterns of code of its own, or for vocabularies that are no bytes.
constexpr std::string_view kNotRun[] = {"deepseek-llm",
                                        "spark2_5",
                                        "youtu",
                                        "jais-2",
                                        "gemma4",
                                        "granite-embed-multi-311m",
                                        "sarvam-moe",
                                        "whitespace",
                                        "tiny_aya",
                                        "superbpe",
                                        "cohere2moe",
                                        "kimi-k2",
                                        "granite-embed-multi-97m",
                                        "exaone-moe",
                                        "ufakzeka",
                                        "afmoe",
                                        "laguna",
                                        "minicpm5",
                                        "mellum2",
                                        "hy_v4",
                                        "hybriddna"};

}  // namespace

Result<const GgufPre*> FindGgufPre(std::string_view name) {
  for (const GgufPre& pre : kPres) {
    if (std::find(pre.names.begin(), pre.names.end(), name) != pre.names.end()) return &pre;
  }
  const bool is_known = std::find(std::begin(kNotRun), std::end(kNotRun), name) != std::end(kNotRun);
  return Fail(MakeError(is_known ? ErrorCode::kTokUnsupported : ErrorCode::kTokUnknownType,
                        "the pre-tokenizer '" + std::string(name) +
                            (is_known ? "' is not run by this version" : "' is unknown"))
                  .Field("tokenizer.ggml.pre"));
}

}  // namespace slm::tokenizer
