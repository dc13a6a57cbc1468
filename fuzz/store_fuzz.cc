// The store's log and nodes. The log's good part re-encodes to its own bytes; a node that decodes encodes to
// its preimage.
#include "fuzz/fuzz.h"
#include "identity/node.h"
#include "store/log.h"
#include "store/model_vfs.h"

SLM_FUZZ_TARGET(data, size) {
  const slm::Bytes bytes(data, data + size);
  if (const auto node = slm::DecodeNode(bytes)) {
    slm::fuzz::Require(slm::EncodeNode(*node) == bytes, "node round trip");
  }
  slm::store::ModelVfs vfs;
  const slm::store::Layout layout{"/s"};
  slm::fuzz::Require(vfs.MakeDirectory("/s").has_value() && vfs.MakeDirectory("/s/log").has_value(),
                     "an empty store");
  vfs.AddFile(layout.Log(), bytes);
  slm::store::LogState state;
  if (!slm::store::ReadLogFrom(vfs, layout, &state)) return 0;
  slm::store::LogState rebuilt;
  slm::Bytes good;
  for (size_t i = 0; i < state.records.size(); ++i) {
    const auto& record = state.records[i];
    const slm::Bytes again = slm::store::EncodeRecord(rebuilt, record.kind, record.nodes);
    good.insert(good.end(), again.begin(), again.end());
    rebuilt.records.push_back(record);
    rebuilt.record_hashes.push_back(state.record_hashes[i]);
  }
  slm::fuzz::Require(good.size() == state.n_good_bytes && std::equal(good.begin(), good.end(), bytes.begin()),
                     "the good part of the log re-encodes");
  return 0;
}
