#include "acquire/conflict.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace slm::acquire {
namespace {

constexpr size_t kMaxValueBytes = 256;

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (uint64_t dimension : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(dimension);
  return text + "]";
}

Declaration DeclareTensor(const PlacedTensor& placed) {
  return {placed.file->path, placed.tensor->name, placed.tensor->header_offset,
          ShapeText(placed.tensor->shape)};
}

void FindArchitectureConflicts(json::Value config, const Profile& profile, std::vector<Conflict>* conflicts) {
  const auto fatal = [&](std::vector<Declaration> declarations, std::string message) {
    conflicts->push_back(
        {ErrorCode::kCfgArchitecture, "architectures", std::move(declarations), std::move(message), false});
  };
  const auto architectures = config.Find("architectures");
  const auto model_type = config.Find("model_type");
  if (!architectures || !architectures->is_array() || architectures->size() == 0 ||
      !architectures->First()->is_string()) {
    fatal({Declare("config.json", architectures.value_or(config))}, "config.json names no architecture");
    return;
  }
  if (architectures->size() > 1) {
    fatal({Declare("config.json", *architectures)}, "config.json names several architectures");
    return;
  }
  const json::Value name = *architectures->First();
  const std::string* expected = profile.ModelType(name.string());
  if (expected == nullptr) {
    fatal({Declare("config.json", name)},
          "the architecture " + std::string(name.string()) + " is not one that the profile supports");
  } else if (!model_type || !model_type->is_string()) {
    fatal({Declare("config.json", model_type.value_or(config)), Declare("config.json", name)},
          "config.json names no model_type; " + std::string(name.string()) + " has " + *expected);
  } else if (model_type->string() != *expected) {
    fatal({Declare("config.json", *model_type), Declare("config.json", name)},
          "model_type and architectures contradict each other");
  }
}

struct HighestId {
  uint64_t id = 0;
  json::Value where;
  bool found = false;

  void Take(uint64_t candidate, json::Value value) {
    if (found && candidate <= id) return;
    *this = {candidate, value, true};
  }
};

HighestId FindHighestId(json::Value tokenizer) {
  HighestId highest;
  const auto model = tokenizer.Find("model");
  const auto vocab = model && model->is_object() ? model->Find("vocab") : std::nullopt;
  if (vocab && vocab->is_object()) {
    for (json::Value id : vocab->children()) {
      if (const auto value = id.AsUint()) highest.Take(*value, id);
    }
  } else if (vocab && vocab->is_array()) {
    uint64_t index = 0;
    for (json::Value piece : vocab->children()) highest.Take(index++, piece);
  }
  const auto added = tokenizer.Find("added_tokens");
  if (!added || !added->is_array()) return highest;
  for (json::Value token : added->children()) {
    const auto id = token.is_object() ? token.Find("id") : std::nullopt;
    if (id && id->AsUint()) highest.Take(*id->AsUint(), *id);
  }
  return highest;
}

void FindVocabularyConflicts(const SourceView& view, const Profile& profile, std::vector<Conflict>* conflicts,
                             std::vector<std::string>* flags) {
  const PlacedTensor embedding = FindTensor(view, profile.embedding_tensors);
  if (embedding.tensor == nullptr || embedding.tensor->shape.empty())
    return;  // conversion says what is missing
  const uint64_t rows = embedding.tensor->shape[0];
  const auto vocab_size = view.config->Find("vocab_size");
  if (vocab_size && vocab_size->AsUint() && *vocab_size->AsUint() != rows) {
    conflicts->push_back({ErrorCode::kCfgVocabShape,
                          "vocab_size",
                          {Declare("config.json", *vocab_size), DeclareTensor(embedding)},
                          "vocab_size and the rows of the embedding differ",
                          false,
                          "rows of weights cannot be made up or left out"});
  }
  if (!view.tokenizer || !view.tokenizer->is_object()) return;
  const HighestId highest = FindHighestId(*view.tokenizer);
  if (!highest.found) return;
  if (highest.id >= rows) {
    // Past what any vocabulary may hold the number itself is the fault, not the embedding.
    const bool is_id = highest.id <= tokenizer::kMaxTokenId;
    conflicts->push_back({is_id ? ErrorCode::kCfgVocabShape : ErrorCode::kTokId,
                          "tokenizer",
                          {Declare("tokenizer.json", highest.where), DeclareTensor(embedding)},
                          "token id " + std::to_string(highest.id) + " has no row in the embedding",
                          false,
                          "rows of weights cannot be made up"});
  } else if (highest.id + 1 < rows) {
    flags->push_back("padded vocabulary: " + std::to_string(rows) + " rows in the embedding, token ids to " +
                     std::to_string(highest.id));
  }
}

}  // namespace

std::string ShortenedText(std::string_view text) {
  if (text.size() > kMaxValueBytes) {
    size_t end = kMaxValueBytes;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
    text = text.substr(0, end);
  }
  // A model card or license may hold any bytes, a node's text UTF-8 only.
  return FindUtf8Fault(text) ? EscapeForDisplay(text) : std::string(text);
}

Declaration Declare(std::string_view file, json::Value value) {
  return {std::string(file), value.Path(), value.byte_offset(), ShortenedText(value.source_text())};
}

PlacedTensor FindTensor(const SourceView& view, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const StreamedFile* file : view.weights) {
      if (!file->header) continue;
      if (const safetensors::TensorInfo* tensor = file->header->Find(name)) return {file, tensor};
    }
  }
  return {};
}

std::vector<Conflict> FindConflicts(const SourceView& view, const Profile& profile,
                                    std::vector<std::string>* flags) {
  std::vector<Conflict> conflicts;
  if (!view.config || !view.config->is_object()) return conflicts;
  FindArchitectureConflicts(*view.config, profile, &conflicts);
  FindVocabularyConflicts(view, profile, &conflicts, flags);
  FindTokenizerConflicts(view, &conflicts);
  FindTokenConflicts(view, &conflicts, flags);
  FindTemplateConflicts(view, &conflicts, flags);
  return conflicts;
}

Node ConflictNode(const Conflict& conflict,
                  const std::function<Hash256(const std::string& path)>& file_node) {
  cbor::Array declarations;
  std::vector<std::string> files;
  for (const Declaration& declaration : conflict.declarations) {
    declarations.emplace_back(cbor::Map{{"file", Bytes(declaration.file.begin(), declaration.file.end())},
                                        {"json_path", declaration.json_path},
                                        {"byte_offset", declaration.byte_offset},
                                        {"value", declaration.value},
                                        {"ref", declaration.Ref()}});
    if (std::find(files.begin(), files.end(), declaration.file) == files.end())
      files.push_back(declaration.file);
  }
  Node node;
  node.type = "conflict";
  node.metadata = cbor::Map{{"schema", "slm.conflict.v1"},
                            {"code", Info(conflict.code).name},
                            {"field", conflict.field},
                            {"declarations", std::move(declarations)},
                            {"acceptable", conflict.acceptable}};
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) node.edges.push_back({"file", file_node(file)});
  return node;
}

}  // namespace slm::acquire
