#include "apps/slm/mutants.h"

#include <algorithm>
#include <bit>
#include <map>

#include "model/effective_config.h"
#include "slm_file/artifact_writer.h"
#include "slm_file/manifest.h"
#include "slm_file/output_file.h"

namespace slm::app {
namespace {

// The tensor whose bytes begin here.
const TensorEntry* TensorAt(const Artifact& artifact, uint64_t offset) {
  for (const TensorEntry& entry : artifact.tensors()) {
    if (!entry.alias_of && entry.offset == offset) return &entry;
  }
  return nullptr;
}

cbor::Map WithBlobs(cbor::Map manifest, std::span<const BlobEntry> blobs) {
  cbor::Array rows;
  for (const BlobEntry& blob : blobs) {
    rows.emplace_back(cbor::Map{
        {"kind", blob.kind}, {"offset", blob.offset}, {"size", blob.size}, {"sha256", blob.sha256}});
  }
  manifest.Set("blobs", std::move(rows));
  return manifest;
}

Bytes F64Bytes(double value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}

Bytes F32Bytes(float value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint32_t>(value));
  return bytes;
}

void AppendTo(Bytes* out, ByteSpan bytes) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

}  // namespace

Status RewriteArtifact(const Artifact& artifact, const ArtifactEdit& edit, const std::string& path) {
  // Regions in order of offset: text blobs as they are, tensors perhaps edited.
  std::map<uint64_t, std::pair<std::string, Bytes>> regions;
  for (const BlobEntry& blob : artifact.blobs()) {
    const ByteSpan bytes = artifact.file().subspan(blob.offset, blob.size);
    regions[blob.offset] = {blob.kind, Bytes(bytes.begin(), bytes.end())};
  }
  for (const TensorEntry& entry : artifact.tensors()) {
    if (entry.alias_of) continue;
    const ByteSpan bytes = artifact.TensorBytes(entry);
    Bytes copy(bytes.begin(), bytes.end());
    if (!edit.tensor.empty() && TensorAt(artifact, entry.offset)->name == edit.tensor)
      edit.edit_tensor(entry, &copy);
    regions[entry.offset] = {std::string(kTensorBlobKind), std::move(copy)};
  }
  cbor::Map manifest = artifact.manifest();
  if (edit.edit_config) {
    cbor::Map config = artifact.config();
    edit.edit_config(&config);
    manifest.Set("config", std::move(config));
  }
  ArtifactSpec spec;
  for (const auto& [offset, region] : regions) {
    const Bytes& bytes = region.second;
    spec.blobs.push_back(
        {region.first, bytes.size(), [&bytes](const BlobSink& sink) { return sink(bytes); }});
  }
  spec.manifest = [&manifest](std::span<const BlobEntry> blobs) { return WithBlobs(manifest, blobs); };
  SLM_TRY(WriteArtifact(path, spec));
  return {};
}

Status PermuteWeightRow(const Artifact& artifact, const std::string& path) {
  ArtifactEdit edit;
  edit.tensor = "layers.0.attn.q.weight";
  edit.edit_tensor = [](const TensorEntry& entry, Bytes* bytes) {
    // rows16: element (row, k) of a group stands at k * 16 + row.
    const uint64_t element = DTypeSize(entry.dtype);
    for (uint64_t k = 0; k < entry.shape[1]; ++k) {
      uint8_t* first = bytes->data() + (k * kRowsPerGroup + 2) * element;
      std::swap_ranges(first, first + element, first + element);
    }
  };
  return RewriteArtifact(artifact, edit, path);
}

Status ChangeEpsilon(const Artifact& artifact, const std::string& path) {
  SLM_ASSIGN(const EffectiveConfig config, ConfigFromCbor(artifact.config()));
  ArtifactEdit edit;
  edit.edit_config = [&config](cbor::Map* map) {
    map->Set("norm_eps", F64Bytes(config.norm_eps * 10));
    map->Set("norm_eps_f32", F32Bytes(static_cast<float>(config.norm_eps * 10)));
  };
  return RewriteArtifact(artifact, edit, path);
}

Status WrongEos(const Artifact& artifact, const std::string& path) {
  SLM_ASSIGN(const EffectiveConfig config, ConfigFromCbor(artifact.config()));
  const uint64_t old = config.eos_token_ids.empty() ? 0 : config.eos_token_ids.front();
  ArtifactEdit edit;
  edit.edit_config = [&](cbor::Map* map) {
    map->Set("eos_token_ids", cbor::Array{(old + 1) % config.vocab_size});
  };
  return RewriteArtifact(artifact, edit, path);
}

Status FlipByte(const Artifact& artifact, const std::string& path) {
  std::string copy(AsText(artifact.file()));
  const TensorEntry& entry = artifact.tensors()[artifact.tensors().size() / 2];
  copy[entry.offset + entry.size / 2] = static_cast<char>(copy[entry.offset + entry.size / 2] ^ 0x10);
  return WriteWholeFile(path, copy);
}

Status RewriteGolden(const golden::Golden& golden, const ObservationEdit& edit, const std::string& path) {
  Bytes out;
  golden::GoldenWriter writer([&out](ByteSpan bytes) -> Status {
    AppendTo(&out, bytes);
    return {};
  });
  golden::Content content = golden.content();
  for (golden::Case& one : content.cases) {
    for (golden::Observation& observation : one.observations) {
      const ByteSpan old = golden.BlobBytes(observation.blob);
      Bytes bytes(old.begin(), old.end());
      if (edit) edit(one, observation, &bytes);
      SLM_ASSIGN(observation.blob, writer.AddBlob(bytes));
    }
  }
  for (golden::Observation& observation : content.model_observations) {
    SLM_ASSIGN(observation.blob, writer.AddBlob(golden.BlobBytes(observation.blob)));
  }
  for (golden::Attachment& attachment : content.attachments) {
    SLM_ASSIGN(attachment.blob, writer.AddBlob(golden.BlobBytes(attachment.blob)));
  }
  SLM_TRY(writer.Finish(std::move(content)));
  return WriteWholeFile(path, AsText(out));
}

Status NanLane(const golden::Golden& golden, const std::string& path) {
  constexpr std::string_view kName = "layers.0.attn.out";
  std::string case_id;
  for (const golden::Case& one : golden.cases()) {
    if (one.Find(kName) != nullptr) case_id = one.case_id;
  }
  if (case_id.empty())
    return Fail(MakeError(ErrorCode::kUsage, "the suite observes no layers.0.attn.out").Field(kName));
  return RewriteGolden(
      golden,
      [&](const golden::Case& one, const golden::Observation& observation, Bytes* bytes) {
        if (one.case_id != case_id || observation.name != kName) return;
        const uint64_t n = bytes->size() / 4;
        StoreLe(bytes->data() + (n / 2) * 4, uint32_t{0x7fc00001});
      },
      path);
}

}  // namespace slm::app
