// For tests: a small piece of work on a store that can be run again after a crash.
#ifndef SLM_STORE_TEST_SCENARIO_H_
#define SLM_STORE_TEST_SCENARIO_H_

#include <functional>
#include <string>

#include "store/store.h"
#include "store/vfs.h"

namespace slm::store {

inline constexpr char kRoot[] = "/s";

inline Node LeafNode(std::string_view name, const Hash256& blob) {
  return Node{"source-file", {{"schema", "slm.test.v1"}, {"name", name}, {"blob", blob}}, {}};
}
inline Node ParentNode(std::string_view name, const Hash256& first, const Hash256& second) {
  return Node{
      "acquisition", {{"schema", "slm.test.v1"}, {"name", name}}, {{"first", first}, {"second", second}}};
}

// Stores two blobs, three nodes and one record, unless an earlier run has finished that.
inline Result<Hash256> DoTransaction(Store& store, std::string_view name) {
  const std::string big = std::string(name) + std::string(1500, '.');  // more than two sectors
  SLM_ASSIGN(const Hash256 first_blob, store.PutBlob(AsBytes(big)));
  SLM_ASSIGN(const Hash256 second_blob, store.PutBlob(AsBytes("the same small blob every time")));
  SLM_ASSIGN(const Hash256 first, store.PutNode(LeafNode(name, first_blob)));
  SLM_ASSIGN(const Hash256 second, store.PutNode(LeafNode("shared", second_blob)));
  const Node parent = ParentNode(name, first, second);
  if (store.HasNode(NodeId(parent))) return NodeId(parent);
  SLM_ASSIGN(const Hash256 id, store.PutNode(parent));
  SLM_TRY(store.AppendLog(name, std::span(&id, 1)));
  return id;
}

// `finished` is called after each transaction that is durable.
inline Status RunScenario(Vfs& vfs, const std::function<void()>& finished = [] {}) {
  SLM_ASSIGN(const auto store, Store::OpenOn(vfs, kRoot));
  for (const char* name : {"one", "two", "three"}) {
    SLM_TRY(DoTransaction(*store, name));
    finished();
  }
  return {};
}

}  // namespace slm::store

#endif  // SLM_STORE_TEST_SCENARIO_H_
