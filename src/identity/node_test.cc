#include "identity/node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "codec/sha256.h"

namespace slm {
namespace {

Hash256 Filled(uint8_t byte) {
  Hash256 hash;
  hash.fill(byte);
  return hash;
}

Node SampleNode() {
  return Node{"promotion",
              {{"schema", "slm.test.v1"}, {"count", 3}},
              {{"tokenizer", Filled(1)}, {"template", Filled(2)}}};
}

TEST(NodeTypes, AreThoseOfTheStandard) {  // ID-02
  const std::set<std::string_view> kStandard = {"source-file",
                                                "source-tree",
                                                "acquisition",
                                                "license-decision",
                                                "conflict",
                                                "tokenizer",
                                                "template",
                                                "effective-config",
                                                "tensor-ledger",
                                                "quant-profile",
                                                "calibration",
                                                "artifact",
                                                "runtime-build",
                                                "backend-profile",
                                                "sampling-profile",
                                                "tolerance-policy",
                                                "case-suite",
                                                "oracle-run",
                                                "observation",
                                                "raw-output",
                                                "comparison",
                                                "bisection",
                                                "statistical-plan",
                                                "statistical-result",
                                                "drift-observation",
                                                "promotion",
                                                "family-profile",
                                                "golden-suite",
                                                "run",
                                                "conversation",
                                                "attempt",
                                                "decision",
                                                "commitment",
                                                "secret-scan",
                                                "signature"};
  EXPECT_EQ(std::set<std::string_view>(NodeTypes().begin(), NodeTypes().end()), kStandard);
  for (const std::string_view type : kStandard) {
    EXPECT_TRUE(IsNodeType(type));
    for (const char c : type) EXPECT_TRUE((c >= 'a' && c <= 'z') || c == '-');
  }
  EXPECT_FALSE(IsNodeType(""));
  EXPECT_FALSE(IsNodeType("run-"));
}

TEST(Node, PreimageIsTheConcatenationOfId01) {
  const Bytes preimage = EncodeNode(SampleNode());
  // "count", "edges", "schema": in the order of their encoding.
  const Bytes map = cbor::Encode(
      cbor::Map{{"schema", "slm.test.v1"}, {"count", 3}, {"edges", cbor::Array{"tokenizer", "template"}}});
  std::string expected = "tinyrustlm-conformance-node-v1promotion" + std::string(AsText(map));
  expected += std::string(32, '\1') + std::string(32, '\2');
  EXPECT_EQ(AsText(preimage), expected);
  EXPECT_EQ(NodeId(SampleNode()), Sha256Of(AsBytes(expected)));
}

TEST(Node, RoundTrips) {
  for (const std::string_view type : NodeTypes()) {
    Node node = SampleNode();
    node.type = type;
    const auto back = DecodeNode(EncodeNode(node));
    ASSERT_TRUE(back.has_value()) << back.error().ToString();
    EXPECT_EQ(*back, node);
  }
  const Node leaf{"source-file", {{"schema", "s"}}, {}};
  EXPECT_EQ(*DecodeNode(EncodeNode(leaf)), leaf);
}

TEST(Node, EveryPartChangesTheId) {
  std::set<Hash256> ids{NodeId(SampleNode())};
  const auto add = [&ids](auto change) {
    Node node = SampleNode();
    change(node);
    EXPECT_TRUE(ids.insert(NodeId(node)).second);
  };
  add([](Node& n) { n.type = "comparison"; });
  add([](Node& n) { n.metadata.Set("count", 4); });
  add([](Node& n) { n.metadata.Set("schema", "slm.test.v2"); });
  add([](Node& n) { n.metadata.Set("more", cbor::Value()); });
  add([](Node& n) { n.edges[0].role = "tokenizer2"; });
  add([](Node& n) { std::swap(n.edges[0].role, n.edges[1].role); });
  add([](Node& n) { std::swap(n.edges[0].child, n.edges[1].child); });
  add([](Node& n) { std::swap(n.edges[0], n.edges[1]); });
  add([](Node& n) { n.edges.pop_back(); });
}

TEST(Node, ChildrenByRole) {
  const Node node{"run", {{"schema", "s"}}, {{"a", Filled(1)}, {"b", Filled(2)}, {"a", Filled(3)}}};
  EXPECT_EQ(*node.Child("a"), Filled(1));
  EXPECT_EQ(*node.Child("b"), Filled(2));
  EXPECT_EQ(node.Child("c"), nullptr);
  EXPECT_EQ(node.Children("a"), (std::vector<Hash256>{Filled(1), Filled(3)}));
}

struct Refusal {
  const char* what;
  std::string preimage;
  const char* code;
  uint64_t byte_offset;
};

std::string Preimage(std::string_view type, const cbor::Value& map, size_t n_child_bytes) {
  return std::string(kNodeDomain) + std::string(type) + std::string(AsText(cbor::Encode(map))) +
         std::string(n_child_bytes, 'c');
}

TEST(Node, RefusalsWithOffsets) {
  const cbor::Map leaf{{"schema", "s"}, {"edges", cbor::Array{}}};
  const std::string good = Preimage("run", leaf, 0);
  ASSERT_TRUE(DecodeNode(AsBytes(good)).has_value());
  const size_t map_offset = kNodeDomain.size() + 3;
  const auto with_edges = [](cbor::Value edges) {
    return cbor::Map{{"schema", "s"}, {"edges", std::move(edges)}};
  };
  const std::string head = std::string(kNodeDomain) + "run";
  const Refusal kTable[] = {
      {"empty", "", "NODE-DOMAIN", 0},
      {"domain cut", std::string(kNodeDomain.substr(0, 29)), "NODE-DOMAIN", 0},
      {"other version", "tinyrustlm-conformance-node-v2" + good.substr(30), "NODE-DOMAIN", 0},
      {"a file that only looks like one", " " + good, "NODE-DOMAIN", 0},
      {"no type", Preimage("", leaf, 0), "NODE-TYPE", 30},
      {"unknown type", Preimage("runs", leaf, 0), "NODE-TYPE", 30},
      {"upper case", Preimage("Run", leaf, 0), "NODE-TYPE", 30},
      {"ends after the type", head, "TRUNCATED", map_offset},
      {"map cut", good.substr(0, good.size() - 1), "TRUNCATED", map_offset + 15},
      {"not a map", head + "\x80", "SCHEMA-TYPE", map_offset},
      {"key order",
       head + "\xA2\x66schema\x61s\x65"
              "edges\x80",
       "KEY_ORDER", map_offset + 10},
      {"float", head + "\xA1\x66schema\xF9\x3C\x01", "FLOAT_FORBIDDEN", map_offset + 8},
      {"no schema", Preimage("run", cbor::Map{{"edges", cbor::Array{}}}, 0), "SCHEMA-MISSING", map_offset},
      {"schema null", Preimage("run", cbor::Map{{"schema", cbor::Value()}, {"edges", cbor::Array{}}}, 0),
       "SCHEMA-NULL", map_offset},
      {"schema number", Preimage("run", cbor::Map{{"schema", 1}, {"edges", cbor::Array{}}}, 0), "SCHEMA-TYPE",
       map_offset},
      {"no edges", Preimage("run", cbor::Map{{"schema", "s"}}, 0), "NODE-EDGES", map_offset},
      {"edges not an array", Preimage("run", with_edges("x"), 0), "NODE-EDGES", map_offset},
      {"role not text", Preimage("run", with_edges(cbor::Array{1}), 32), "NODE-EDGES", map_offset},
      {"role empty", Preimage("run", with_edges(cbor::Array{""}), 32), "NODE-EDGES", map_offset},
      {"role with blank", Preimage("run", with_edges(cbor::Array{"a b"}), 32), "NODE-EDGES", map_offset},
      {"child missing", Preimage("run", with_edges(cbor::Array{"a"}), 0), "NODE-EDGES", map_offset + 19},
      {"child short", Preimage("run", with_edges(cbor::Array{"a"}), 31), "NODE-EDGES", map_offset + 19},
      {"child long", Preimage("run", with_edges(cbor::Array{"a"}), 33), "NODE-EDGES", map_offset + 19},
      {"child too many", Preimage("run", with_edges(cbor::Array{"a"}), 64), "NODE-EDGES", map_offset + 19},
      {"trailing byte", good + "x", "NODE-EDGES", map_offset + 17},
  };
  for (const Refusal& row : kTable) {
    const auto result = DecodeNode(AsBytes(row.preimage));
    ASSERT_FALSE(result.has_value()) << row.what;
    EXPECT_EQ(result.error().CodeText(), row.code) << row.what;
    EXPECT_EQ(result.error().byte_offset, row.byte_offset) << row.what;
  }
}

TEST(Node, CheckNodeFindsWhatEncodeNodeMayNotGet) {
  EXPECT_TRUE(CheckNode(SampleNode()).has_value());
  const auto code_of = [](auto change) {
    Node node = SampleNode();
    change(node);
    const Status status = CheckNode(node);
    return status.has_value() ? "" : status.error().CodeText();
  };
  EXPECT_EQ(code_of([](Node& n) { n.type = "thing"; }), "NODE-TYPE");
  EXPECT_EQ(code_of([](Node& n) { n.metadata.Set("edges", cbor::Array{}); }), "NODE-EDGES");
  EXPECT_EQ(code_of([](Node& n) { n.edges[0].role = ""; }), "NODE-EDGES");
  EXPECT_EQ(code_of([](Node& n) { n.edges[1].role = "Role"; }), "NODE-EDGES");
  EXPECT_EQ(code_of([](Node& n) { n.metadata = cbor::Map{{"other", 1}}; }), "SCHEMA-MISSING");
  EXPECT_EQ(code_of([](Node& n) { n.metadata.Set("schema", 1); }), "SCHEMA-TYPE");
  EXPECT_EQ(code_of([](Node& n) { n.metadata.Set("schema", cbor::Value()); }), "SCHEMA-NULL");
  EXPECT_EQ(code_of([](Node& n) { n.metadata.Set("name", std::string("\xC0")); }), "BAD_UTF8");
  EXPECT_EQ(code_of([](Node& n) { n.metadata.Set("Name", 1); }), "KEY_CHARSET");
}

// One node has one preimage: every single-byte change is refused or decodes to another node
// whose own preimage is the changed one.
TEST(Node, AcceptedMutantsReencodeEqual) {
  const Bytes preimage = EncodeNode(SampleNode());
  size_t n_accepted = 0;
  for (size_t at = 0; at < preimage.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x02u, 0x20u, 0x80u}) {
      Bytes mutant = preimage;
      mutant[at] = static_cast<uint8_t>(mutant[at] ^ flip);
      const auto node = DecodeNode(mutant);
      if (!node.has_value()) continue;
      ++n_accepted;
      EXPECT_EQ(EncodeNode(*node), mutant) << at;
      EXPECT_NE(*node, SampleNode());
    }
  }
  EXPECT_GT(n_accepted, 200u) << "each change of a child id is another good node";
}

// docs/spec/identity.md, Blobs: which 32-byte strings name one.
TEST(NodeBlobs, EveryBlobThatMetadataNames) {
  const auto hash = [](uint8_t n) {
    Hash256 value;
    value.fill(n);
    return value;
  };
  const cbor::Map common{
      {"schema", "s"},
      {"blob", hash(1)},
      {"raw_blob", hash(2)},
      {"blobs", cbor::Array{cbor::Value(hash(3)), cbor::Value(cbor::Map{{"blob", hash(4)}})}},
      {"deep", cbor::Array{cbor::Value(cbor::Array{cbor::Value(cbor::Map{{"x_blob", hash(5)}})})}},
      {"profile", hash(6)},
      {"cards_table", hash(7)},
      {"texts_table", hash(8)},
      {"statement", hash(9)},
      {"sha256", hash(10)},
      {"applies_to", cbor::Array{cbor::Value(hash(11))}}};
  for (const auto& [type, extra] : {std::pair<std::string, std::vector<uint8_t>>{"run", {}},
                                    {"acquisition", {6}},
                                    {"license-decision", {7, 8}},
                                    {"decision", {9}}}) {
    std::vector<uint8_t> expected{1, 2, 3, 4, 5};
    expected.insert(expected.end(), extra.begin(), extra.end());
    std::vector<uint8_t> found;
    for (const Hash256& blob : BlobsOf(Node{type, common, {}})) found.push_back(blob[0]);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected) << type;
  }
  EXPECT_TRUE(BlobsOf(Node{"run", {{"schema", "s"}, {"blob", 3}}, {}}).empty()) << "an index names nothing";
}

}  // namespace
}  // namespace slm
