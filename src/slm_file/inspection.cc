#include "slm_file/inspection.h"

#include "codec/json.h"
#include "slm_file/file_header.h"

namespace slm {

std::string InspectionJson(const Artifact& artifact) {
  const ByteSpan file = artifact.file();
  json::Writer out;
  out.BeginObject().Key("root").String(ToHex(artifact.root()));
  out.Key("header").BeginObject();
  // The artifact was opened, so its header is well-formed.
  const Result<FileHeader> header = DecodeHeader(file, file.size());
  out.Key("major").Uint(kSlmMajor).Key("minor").Uint(header->minor).Key("file_size").Uint(header->file_size);
  out.Key("manifest_offset").Uint(kSlmHeaderSize).Key("manifest_size").Uint(header->manifest_size);
  out.Key("chunk_table_offset").Uint(header->table_offset).Key("chunk_table_size").Uint(header->table_size);
  out.Key("data_offset").Uint(header->data_offset).Key("data_size").Uint(header->data_size);
  out.Key("manifest_sha256").String(ToHex(header->manifest_sha256));
  out.Key("chunk_table_sha256").String(ToHex(header->table_sha256)).EndObject();
  out.Key("chunks").BeginArray();
  for (uint64_t at = 0; at < header->table_size; at += 32) {
    out.String(ToHex(file.subspan(header->table_offset + at, 32)));
  }
  out.EndArray();
  out.Key("manifest").Raw(cbor::ToJson(artifact.manifest(), /*indent=*/false)).EndObject();
  return out.Take();
}

}  // namespace slm
