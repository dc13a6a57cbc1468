#include "slm_file/manifest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/checked.h"

namespace slm {
namespace {

// The kinds of blobs that version 1 gives a meaning to; a blob of another kind has no user.
constexpr std::array<std::string_view, 10> kBlobKinds = {
    kTensorBlobKind, "config-json",     "generation-config", "license",        "model-card",
    "template-ir",   "template-source", "tokenizer-config",  "tokenizer-json", "special-tokens-map"};

// Names of everything that a reader must understand to use the file.
constexpr std::array<std::string_view, 1> kFeatures = {"rows16"};

Error SchemaError(const std::string& field, std::string message) {
  return MakeError(ErrorCode::kSlmSchema, field + ": " + std::move(message)).Field(field);
}

Error RuleError(ErrorCode code, const std::string& field, std::string message) {
  return MakeError(code, field + ": " + std::move(message)).Field(field);
}

std::string Indexed(std::string_view list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Result<const cbor::Map*> MapAt(const cbor::Array& items, size_t index, std::string_view list) {
  const cbor::Map* map = items[index].AsMap();
  if (map == nullptr) return Fail(SchemaError(Indexed(list, index), "must be a map"));
  return map;
}

Result<std::vector<uint64_t>> UintsOf(const cbor::Array& items, const std::string& field) {
  std::vector<uint64_t> numbers;
  for (const cbor::Value& item : items) {
    const uint64_t* number = item.AsUint();
    if (number == nullptr) return Fail(SchemaError(field, "must hold unsigned integers"));
    numbers.push_back(*number);
  }
  return numbers;
}

class Decoder {
 public:
  explicit Decoder(const FileHeader& header) : header_(header) {}

  Result<Manifest> Decode(ByteSpan bytes) {
    Result<cbor::Value> value = cbor::Decode(bytes, cbor::Limits{.max_bytes = kSlmMaxManifest,
                                                                 .max_depth = 16,
                                                                 .max_items = 1u << 20,
                                                                 .max_string_bytes = 4u << 20});
    if (!value) {
      Error error = std::move(value).error();
      error.cause = error.code;
      error.code = ErrorCode::kSlmManifestP0;
      error.byte_offset = error.byte_offset.value_or(0) + kSlmHeaderSize;
      error.field = "manifest";
      return Fail(std::move(error));
    }
    const cbor::Map* map = value->AsMap();
    if (map == nullptr) return Fail(ManifestError(SchemaError("manifest", "must be a map"), bytes));
    manifest_.map = *map;
    Status status = ReadTop(manifest_.map);
    if (!status) return Fail(ManifestError(std::move(status).error(), bytes));
    return std::move(manifest_);
  }

 private:
  Status ReadTop(const cbor::Map& map) {
    cbor::Reader reader(map);
    SLM_ASSIGN(const std::string schema, reader.Text("schema"));
    if (schema != kManifestSchema)
      return Fail(SchemaError("schema", "must be " + std::string(kManifestSchema)));
    SLM_ASSIGN(const cbor::Array* features, reader.ArrayOf("required_features"));
    SLM_TRY(CheckFeatures(*features));
    if (reader.Optional("ext") != nullptr) {
      SLM_ASSIGN(const cbor::Map* ext, reader.MapOf("ext"));
      SLM_TRY(CheckExtensions(*ext));
    }
    SLM_ASSIGN(const cbor::Map* producer, reader.MapOf("producer"));
    SLM_TRY(CheckProducer(*producer));
    SLM_ASSIGN(const cbor::Map* source, reader.MapOf("source"));
    SLM_TRY(CheckSource(*source));
    SLM_ASSIGN(const cbor::Map* license, reader.MapOf("license"));
    SLM_TRY(CheckLicense(*license));
    SLM_ASSIGN(const cbor::Map* profile, reader.MapOf("family_profile"));
    SLM_TRY(CheckProfile(*profile));
    SLM_ASSIGN(const cbor::Map* config, reader.MapOf("config"));
    if (config->size() == 0) return Fail(SchemaError("config", "is empty"));
    SLM_TRY(CheckRows(reader, "config_columns", {"choice", "field", "pinned", "publisher", "undefined"}));
    SLM_TRY(CheckRows(reader, "ignored_metadata", {"file", "key", "reason", "value"}));
    SLM_TRY(CheckRows(reader, "sampling_declarations", {"key", "value"}));
    SLM_TRY(CheckRows(reader, "accepted_conflicts", {"code", "field", "first", "second"}));
    SLM_ASSIGN(const cbor::Array* quant, reader.ArrayOf("quant_profiles"));
    if (!quant->empty())
      return Fail(RuleError(ErrorCode::kSlmFeature, "quant_profiles", "version 1.0 has none"));
    SLM_ASSIGN(const cbor::Array* blobs, reader.ArrayOf("blobs"));
    SLM_TRY(ReadBlobs(*blobs));
    SLM_ASSIGN(const cbor::Array* tensors, reader.ArrayOf("tensors"));
    SLM_TRY(ReadTensors(*tensors));
    SLM_ASSIGN(const cbor::Array* omitted, reader.ArrayOf("omitted"));
    for (size_t i = 0; i < omitted->size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(*omitted, i, "omitted"));
      SLM_TRY(CheckSourceTensor(*row, Indexed("omitted", i), /*with_reason=*/true));
    }
    SLM_TRY(reader.Finish());
    SLM_TRY(CheckReferences());
    return CheckFeatureUse(*features);
  }

  // A feature stands in the list where, and only where, the file uses it, once.
  Status CheckFeatureUse(const cbor::Array& features) {
    const auto* const user =
        std::find_if(manifest_.tensors.data(), manifest_.tensors.data() + manifest_.tensors.size(),
                     [](const TensorEntry& entry) { return entry.layout == Layout::kRows16; });
    const auto index = static_cast<size_t>(user - manifest_.tensors.data());
    const bool used = index < manifest_.tensors.size();
    if (used && features.empty()) {
      return Fail(RuleError(ErrorCode::kSlmFeature, Indexed("tensors", index) + ".layout",
                            "layout rows16 is used, but required_features does not name it"));
    }
    if (features.size() > (used ? 1 : 0)) {
      return Fail(RuleError(ErrorCode::kSlmFeature, Indexed("required_features", features.size() - 1),
                            "named twice, or not used by any tensor"));
    }
    return {};
  }

  Status CheckFeatures(const cbor::Array& features) {
    for (size_t i = 0; i < features.size(); ++i) {
      const std::string* name = features[i].AsTextString();
      if (name == nullptr) return Fail(SchemaError(Indexed("required_features", i), "must be a text"));
      if (std::find(kFeatures.begin(), kFeatures.end(), *name) == kFeatures.end()) {
        return Fail(
            RuleError(ErrorCode::kSlmFeature, Indexed("required_features", i), "unknown feature " + *name));
      }
    }
    return {};
  }

  Status CheckExtensions(const cbor::Map& extensions) {
    for (const auto& [name, value] : extensions) {
      const cbor::Map* body = value.AsMap();
      if (body == nullptr) return Fail(SchemaError("ext." + name, "must be a map"));
      cbor::Reader reader(*body, "ext." + name);
      SLM_ASSIGN(const bool critical, reader.Bool("critical"));
      SLM_ASSIGN(const Bytes data, reader.ByteString("data"));
      SLM_TRY(reader.Finish());
      if (critical)
        return Fail(RuleError(ErrorCode::kSlmExt, "ext." + name, "an unknown critical extension"));
    }
    return {};
  }

  Status CheckProducer(const cbor::Map& map) {
    cbor::Reader reader(map, "producer");
    SLM_TRY(reader.Text("name"));
    SLM_TRY(reader.Text("version"));
    return reader.Finish();
  }

  Status CheckSource(const cbor::Map& map) {
    cbor::Reader reader(map, "source");
    SLM_TRY(reader.Hash("acquisition"));
    SLM_TRY(reader.ByteString("name"));
    SLM_TRY(reader.ByteString("revision"));
    SLM_ASSIGN(const cbor::Array* files, reader.ArrayOf("files"));
    Bytes previous;
    for (size_t i = 0; i < files->size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(*files, i, "source.files"));
      cbor::Reader file(*row, Indexed("source.files", i));
      SLM_ASSIGN(Bytes path, file.ByteString("path"));
      SLM_ASSIGN(const uint64_t size, file.Uint("size"));
      SLM_TRY(file.Hash("sha256"));
      SLM_TRY(file.Finish());
      if (path.empty() || (i > 0 && path <= previous)) {
        return Fail(SchemaError(Indexed("source.files", i), "paths must be increasing and not empty"));
      }
      previous = std::move(path);
      file_sizes_.push_back(size);
    }
    return reader.Finish();
  }

  Status CheckLicense(const cbor::Map& map) {
    cbor::Reader reader(map, "license");
    SLM_TRY(reader.Text("spdx"));
    return reader.Finish();
  }

  Status CheckProfile(const cbor::Map& map) {
    cbor::Reader reader(map, "family_profile");
    SLM_TRY(reader.Text("family"));
    SLM_TRY(reader.Uint("version"));
    SLM_TRY(reader.Hash("sha256"));
    SLM_TRY(reader.Text("pinned_source"));
    SLM_TRY(reader.Text("reviewer"));
    return reader.Finish();
  }

  // A list of maps of texts with exactly these keys.
  Status CheckRows(cbor::Reader& reader, std::string_view list,
                   std::initializer_list<std::string_view> keys) {
    SLM_ASSIGN(const cbor::Array* rows, reader.ArrayOf(list));
    for (size_t i = 0; i < rows->size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(*rows, i, list));
      cbor::Reader fields(*row, Indexed(list, i));
      for (const std::string_view key : keys) {
        SLM_TRY(fields.Text(key));
      }
      SLM_TRY(fields.Finish());
    }
    return {};
  }

  Status ReadBlobs(const cbor::Array& blobs) {
    uint64_t previous_end = 0;
    for (size_t i = 0; i < blobs.size(); ++i) {
      const std::string field = Indexed("blobs", i);
      SLM_ASSIGN(const cbor::Map* row, MapAt(blobs, i, "blobs"));
      cbor::Reader reader(*row, field);
      BlobEntry blob;
      SLM_ASSIGN(blob.kind, reader.Text("kind"));
      SLM_ASSIGN(blob.offset, reader.Uint("offset"));
      SLM_ASSIGN(blob.size, reader.Uint("size"));
      SLM_ASSIGN(blob.sha256, reader.Hash("sha256"));
      SLM_TRY(reader.Finish());
      SLM_TRY(PlaceBlob(&blob, field, &previous_end));
      manifest_.regions.push_back(std::move(blob));
    }
    if (previous_end != header_.data_size) {
      return Fail(RuleError(ErrorCode::kSlmLayout, "blobs", "the last blob does not end the data region"));
    }
    return {};
  }

  // Blobs stand one after the other, each at the next multiple of 256. Turns the offset in the data
  // region into one in the file.
  Status PlaceBlob(BlobEntry* blob, const std::string& field, uint64_t* previous_end) {
    const std::optional<uint64_t> end = CheckedAdd(blob->offset, blob->size);
    if (!end || *end > header_.data_size) {
      return Fail(RuleError(ErrorCode::kSlmRange, field, "does not lie inside the data region"));
    }
    if (blob->offset % kSlmBlobAlign != 0) {
      return Fail(RuleError(ErrorCode::kSlmAlign, field, "does not begin at a multiple of 256"));
    }
    if (blob->offset < *previous_end) {
      return Fail(RuleError(ErrorCode::kSlmBlobOverlap, field, "overlaps the blob before it"));
    }
    if (blob->offset != *CheckedAlignUp(*previous_end, kSlmBlobAlign)) {
      return Fail(RuleError(ErrorCode::kSlmLayout, field, "leaves a hole behind the blob before it"));
    }
    if (std::find(kBlobKinds.begin(), kBlobKinds.end(), blob->kind) == kBlobKinds.end()) {
      return Fail(
          RuleError(ErrorCode::kSlmBlobOrphan, field, "nothing refers to a blob of kind " + blob->kind));
    }
    *previous_end = *end;
    blob->offset += header_.data_offset;
    if (blob->kind == kTensorBlobKind) {
      has_tensor_blob_ = true;
      return {};
    }
    // Who needs the texts alone reads the file's beginning.
    if (has_tensor_blob_)
      return Fail(RuleError(ErrorCode::kSlmLayout, field, "a text stands behind the tensors"));
    for (const BlobEntry& other : manifest_.blobs) {
      if (other.kind == blob->kind) return Fail(SchemaError(field, "a second blob of kind " + blob->kind));
    }
    manifest_.blobs.push_back(*blob);
    return {};
  }

  Status ReadTensors(const cbor::Array& tensors) {
    if (tensors.empty()) return Fail(SchemaError("tensors", "is empty"));
    alias_sources_.resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(tensors, i, "tensors"));
      SLM_ASSIGN(TensorEntry entry, ReadTensor(*row, i));
      if (i > 0 && entry.name == manifest_.tensors.back().name) {
        return Fail(RuleError(ErrorCode::kSlmDup, Indexed("tensors", i), "a second tensor " + entry.name));
      }
      if (i > 0 && entry.name < manifest_.tensors.back().name) {
        const bool twice = std::any_of(manifest_.tensors.begin(), manifest_.tensors.end(),
                                       [&](const TensorEntry& other) { return other.name == entry.name; });
        if (twice) {
          return Fail(RuleError(ErrorCode::kSlmDup, Indexed("tensors", i), "a second tensor " + entry.name));
        }
        return Fail(SchemaError(Indexed("tensors", i), "tensors must be in increasing order of name"));
      }
      manifest_.tensors.push_back(std::move(entry));
    }
    return {};
  }

  Result<TensorEntry> ReadTensor(const cbor::Map& map, size_t index) {
    const std::string field = Indexed("tensors", index);
    cbor::Reader reader(map, field);
    TensorEntry entry;
    SLM_ASSIGN(entry.name, reader.Text("name"));
    SLM_ASSIGN(entry.role, reader.Text("role"));
    if (entry.name.empty() || entry.name.size() > 512)
      return Fail(SchemaError(field, "name of 0 or more than 512 bytes"));
    if (reader.Optional("layer") != nullptr) {
      SLM_ASSIGN(const uint64_t layer, reader.Uint("layer"));
      if (layer >= 65536) return Fail(SchemaError(field + ".layer", "more than 65536 layers"));
      entry.layer = static_cast<uint32_t>(layer);
    }
    SLM_ASSIGN(const std::string dtype, reader.Text("dtype"));
    SLM_ASSIGN(const std::string layout, reader.Text("layout"));
    const std::optional<DType> dtype_value = DTypeFromName(dtype);
    const std::optional<Layout> layout_value = LayoutFromName(layout);
    if (!dtype_value)
      return Fail(RuleError(ErrorCode::kSlmFeature, field + ".dtype", "unknown dtype " + dtype));
    if (!layout_value)
      return Fail(RuleError(ErrorCode::kSlmFeature, field + ".layout", "unknown layout " + layout));
    entry.dtype = *dtype_value;
    entry.layout = *layout_value;
    SLM_ASSIGN(const cbor::Array* shape, reader.ArrayOf("shape"));
    SLM_ASSIGN(entry.shape, UintsOf(*shape, field + ".shape"));
    SLM_ASSIGN(const cbor::Array* physical, reader.ArrayOf("physical"));
    SLM_ASSIGN(entry.physical, UintsOf(*physical, field + ".physical"));
    const std::optional<std::vector<uint64_t>> expected = PhysicalShape(entry.shape, entry.layout);
    if (!expected || *expected != entry.physical) {
      return Fail(
          RuleError(ErrorCode::kSlmTensorSize, field + ".physical", "does not follow from shape and layout"));
    }
    SLM_TRY(ReadPlace(&reader, field, index, &entry));
    SLM_TRY(ReadLineage(&reader, field));
    SLM_TRY(reader.Finish());
    return entry;
  }

  // `blob` or `alias_of`, never both.
  Status ReadPlace(cbor::Reader* reader, const std::string& field, size_t index, TensorEntry* entry) {
    const bool has_blob = reader->Optional("blob") != nullptr;
    const bool has_alias = reader->Optional("alias_of") != nullptr;
    if (has_blob == has_alias) return Fail(SchemaError(field, "needs either blob or alias_of"));
    if (has_alias) {
      SLM_ASSIGN(const uint64_t target, reader->Uint("alias_of"));
      alias_sources_[index] = target;
      return {};
    }
    SLM_ASSIGN(const uint64_t blob_index, reader->Uint("blob"));
    if (blob_index >= manifest_.regions.size() || manifest_.regions[blob_index].kind != kTensorBlobKind) {
      return Fail(RuleError(ErrorCode::kSlmRange, field + ".blob", "is not the index of a tensor blob"));
    }
    const BlobEntry& blob = manifest_.regions[blob_index];
    const std::optional<uint64_t> size = StoredSize(entry->shape, entry->layout, entry->dtype);
    if (!size || *size != blob.size) {
      return Fail(RuleError(ErrorCode::kSlmTensorSize, field,
                            entry->name + ": the blob's size differs from shape, layout and dtype"));
    }
    if (!used_blobs_.empty() &&
        std::find(used_blobs_.begin(), used_blobs_.end(), blob_index) != used_blobs_.end()) {
      return Fail(RuleError(ErrorCode::kSlmBlobOverlap, field + ".blob", "another tensor has this blob"));
    }
    used_blobs_.push_back(blob_index);
    entry->offset = blob.offset;
    entry->size = blob.size;
    entry->sha256 = blob.sha256;
    return {};
  }

  Status ReadLineage(cbor::Reader* reader, const std::string& field) {
    SLM_ASSIGN(const cbor::Array* sources, reader->ArrayOf("source"));
    if (sources->empty())
      return Fail(RuleError(ErrorCode::kSlmLineage, field + ".source", "no source tensor"));
    for (size_t i = 0; i < sources->size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(*sources, i, field + ".source"));
      SLM_TRY(CheckSourceTensor(*row, Indexed(field + ".source", i), /*with_reason=*/false));
    }
    SLM_ASSIGN(const cbor::Array* transforms, reader->ArrayOf("transforms"));
    if (transforms->empty())
      return Fail(RuleError(ErrorCode::kSlmLineage, field + ".transforms", "no transform"));
    for (size_t i = 0; i < transforms->size(); ++i) {
      SLM_ASSIGN(const cbor::Map* row, MapAt(*transforms, i, field + ".transforms"));
      SLM_TRY(CheckTransform(*row, Indexed(field + ".transforms", i)));
    }
    return {};
  }

  Status CheckTransform(const cbor::Map& map, const std::string& field) {
    cbor::Reader reader(map, field);
    SLM_ASSIGN(const std::string op, reader.Text("op"));
    if (op == "row-interleave-16") {
      for (const std::string_view key : {"rows", "cols", "padded_rows"}) {
        SLM_TRY(reader.Uint(key));
      }
      for (const std::string_view key : {"fill", "proof"}) {
        SLM_TRY(reader.Text(key));
      }
    } else if (op == "alias" || op == "drop-equal") {
      SLM_TRY(reader.Text("of"));
    } else if (op != "identity") {
      return Fail(RuleError(ErrorCode::kSlmLineage, field, "unknown transform " + op));
    }
    return reader.Finish();
  }

  Status CheckSourceTensor(const cbor::Map& map, const std::string& field, bool with_reason) {
    cbor::Reader reader(map, field);
    SLM_ASSIGN(const uint64_t file, reader.Uint("file"));
    SLM_TRY(reader.Text("name"));
    SLM_TRY(reader.Text("dtype"));
    SLM_ASSIGN(const cbor::Array* shape, reader.ArrayOf("shape"));
    SLM_TRY(UintsOf(*shape, field + ".shape"));
    SLM_ASSIGN(const uint64_t begin, reader.Uint("begin"));
    SLM_ASSIGN(const uint64_t end, reader.Uint("end"));
    if (with_reason) {
      SLM_TRY(reader.Text("reason"));
    }
    SLM_TRY(reader.Finish());
    if (file >= file_sizes_.size() || begin > end || end > file_sizes_[file]) {
      return Fail(RuleError(ErrorCode::kSlmRange, field, "names a range outside the source's files"));
    }
    return {};
  }

  // Aliases resolve in one step to a tensor of the same shape, layout and dtype; every blob has a user.
  Status CheckReferences() {
    std::vector<TensorEntry>& tensors = manifest_.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::optional<uint64_t> target = alias_sources_[i];
      if (!target) continue;
      const std::string field = Indexed("tensors", i) + ".alias_of";
      if (*target >= tensors.size() || alias_sources_[*target]) {
        return Fail(RuleError(ErrorCode::kSlmAlias, field, "does not name a stored tensor"));
      }
      const TensorEntry& stored = tensors[*target];
      if (stored.shape != tensors[i].shape || stored.layout != tensors[i].layout ||
          stored.dtype != tensors[i].dtype) {
        return Fail(RuleError(ErrorCode::kSlmAlias, field, "shape, layout or dtype differ from its target"));
      }
      tensors[i].alias_of = static_cast<size_t>(*target);
      tensors[i].offset = stored.offset;
      tensors[i].size = stored.size;
      tensors[i].sha256 = stored.sha256;
    }
    std::sort(used_blobs_.begin(), used_blobs_.end());
    for (size_t i = 0; i < manifest_.regions.size(); ++i) {
      if (manifest_.regions[i].kind == kTensorBlobKind &&
          !std::binary_search(used_blobs_.begin(), used_blobs_.end(), i)) {
        return Fail(
            RuleError(ErrorCode::kSlmBlobOrphan, Indexed("blobs", i), "no tensor refers to this blob"));
      }
    }
    return {};
  }

  const FileHeader& header_;
  Manifest manifest_;
  std::vector<uint64_t> file_sizes_;
  std::vector<uint64_t> used_blobs_;
  std::vector<std::optional<uint64_t>> alias_sources_;
  bool has_tensor_blob_ = false;
};

}  // namespace

std::string_view DTypeName(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kBf16 ? "bf16" : "f16";
}
std::string_view LayoutName(Layout layout) {
  return layout == Layout::kRows16 ? "rows16" : "row-major";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::optional<Layout> LayoutFromName(std::string_view name) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kRows16}) {
    if (LayoutName(layout) == name) return layout;
  }
  return std::nullopt;
}

std::optional<std::vector<uint64_t>> PhysicalShape(const std::vector<uint64_t>& shape, Layout layout) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 56;
  uint64_t elements = 1;
  for (const uint64_t size : shape) {
    const std::optional<uint64_t> product = CheckedMul(elements, size);
    if (size == 0 || !product || *product > kMaxElements) return std::nullopt;
    elements = *product;
  }
  if (layout == Layout::kRowMajor) return shape;
  if (shape.size() != 2) return std::nullopt;
  return std::vector<uint64_t>{(shape[0] + kRowsPerGroup - 1) / kRowsPerGroup, shape[1], kRowsPerGroup};
}

std::optional<uint64_t> StoredSize(const std::vector<uint64_t>& shape, Layout layout, DType dtype) {
  const std::optional<std::vector<uint64_t>> physical = PhysicalShape(shape, layout);
  if (!physical) return std::nullopt;
  uint64_t size = DTypeSize(dtype);
  for (const uint64_t dimension : *physical) {
    const std::optional<uint64_t> product = CheckedMul(size, dimension);
    if (!product) return std::nullopt;
    size = *product;
  }
  return size;
}

Error ManifestError(Error error, ByteSpan manifest) {
  if (error.code >= ErrorCode::kSchemaUnknownKey && error.code <= ErrorCode::kSchemaValue) {
    error.cause = error.code;
    error.code = ErrorCode::kSlmSchema;
  }
  error.byte_offset = kSlmHeaderSize + cbor::OffsetOf(manifest, error.field);
  return error;
}

Result<Manifest> DecodeManifest(ByteSpan bytes, const FileHeader& header) {
  return Decoder(header).Decode(bytes);
}

}  // namespace slm
