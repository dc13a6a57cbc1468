// What is refused, with which code and where (GLD-02).
#include <gtest/gtest.h>

#include "golden/golden_test_util.h"

namespace slm::golden {
namespace {

// A rendered prompt of four bytes with these owners.
void Own(Content* content, std::vector<OwnedInterval> owners) {
  content->cases[0].rendered = Bytes{'a', 'b', 'c', 'd'};
  content->cases[0].ownership = std::move(owners);
}

Error ErrorOf(Bytes file) {
  const auto golden = Golden::FromBytes(std::move(file));
  if (golden.has_value()) {
    ADD_FAILURE() << "the file was read";
    return MakeError(ErrorCode::kInternal, "");
  }
  return golden.error();
}

// The small file with another envelope, all hashes and sizes made to fit.
Bytes Rewrap(const Bytes& file, const Bytes& envelope) {
  const size_t footer_at = file.size() - kFooterBytes;
  const uint64_t envelope_offset = LoadLe<uint64_t>(file.data() + footer_at);
  Bytes result(file.begin(), file.begin() + static_cast<ptrdiff_t>(envelope_offset));
  result.insert(result.end(), envelope.begin(), envelope.end());
  result.resize((result.size() + kAlignment - 1) / kAlignment * kAlignment);
  const Hash256 sha256 = Sha256Of(envelope);
  AppendLe(&result, envelope_offset);
  AppendLe(&result, uint64_t{envelope.size()});
  result.insert(result.end(), sha256.begin(), sha256.end());
  AppendLe(&result, uint64_t{result.size() + 16});
  result.insert(result.end(), kMagic.rbegin(), kMagic.rend());
  return result;
}

cbor::Map EnvelopeOf(const Bytes& file) {
  const size_t footer_at = file.size() - kFooterBytes;
  const auto offset = static_cast<ptrdiff_t>(LoadLe<uint64_t>(file.data() + footer_at));
  const auto size = static_cast<size_t>(LoadLe<uint64_t>(file.data() + footer_at + 8));
  auto value = cbor::Decode(ByteSpan(file.data() + offset, size));
  EXPECT_TRUE(value.has_value());
  return *value->AsMap();
}

Error EnvelopeError(const std::function<void(cbor::Map*)>& change) {
  const Bytes file = WriteSmall();
  cbor::Map envelope = EnvelopeOf(file);
  change(&envelope);
  return ErrorOf(Rewrap(file, cbor::Encode(envelope)));
}

// The error that the reader gives for content which the writer would not write.
Error ContentError(const std::function<void(Content*)>& change) {
  const Bytes file = WriteSmall();
  auto golden = Golden::FromBytes(file);
  Content content = (*golden)->content();
  change(&content);
  return ErrorOf(Rewrap(file, cbor::Encode(EncodeContent(content, (*golden)->blobs()))));
}

TEST(GoldenReject, RewrappedEnvelopeIsReadWhenNothingChanged) {
  const Bytes file = WriteSmall();
  EXPECT_EQ(Rewrap(file, cbor::Encode(EnvelopeOf(file))), file);
}

TEST(GoldenReject, EveryTruncationIsRefused) {
  const Bytes file = WriteSmall();
  for (size_t size = 0; size < file.size(); ++size) {
    const auto golden = Golden::Open(ByteSpan(file.data(), size));
    ASSERT_FALSE(golden.has_value()) << size;
    ASSERT_EQ(golden.error().code, ErrorCode::kGldMagic) << size;
  }
}

TEST(GoldenReject, EveryChangedByteIsRefused) {
  const Bytes file = WriteSmall();
  for (size_t i = 0; i < file.size(); ++i) {
    for (const uint8_t change : {uint8_t{0x01}, uint8_t{0x80}, uint8_t{0xff}}) {
      Bytes damaged = file;
      damaged[i] ^= change;
      ASSERT_FALSE(Golden::Open(damaged).has_value()) << "byte " << i << " xor " << int{change};
    }
  }
}

TEST(GoldenReject, EveryAppendedAmountIsRefused) {
  const Bytes file = WriteSmall();
  for (size_t extra = 1; extra <= 130; ++extra) {
    Bytes longer = file;
    longer.resize(file.size() + extra);
    ASSERT_EQ(ErrorOf(longer).code, ErrorCode::kGldMagic);
  }
  Bytes doubled = file;
  doubled.insert(doubled.end(), file.begin(), file.end());
  const Error error = ErrorOf(doubled);
  EXPECT_EQ(error.code, ErrorCode::kGldPad);
  EXPECT_EQ(error.byte_offset, doubled.size() - 16);
}

TEST(GoldenReject, Gld02OtherVersions) {
  for (const size_t at : {size_t{8}, size_t{12}}) {
    Bytes file = WriteSmall();
    file[at] = 2;
    const Error error = ErrorOf(file);
    EXPECT_EQ(error.code, ErrorCode::kGldVersion);
    EXPECT_EQ(error.byte_offset, 8u);
  }
  const Error required = EnvelopeError([](cbor::Map* map) { map->Set("required", cbor::Array{"sparse"}); });
  EXPECT_EQ(required.code, ErrorCode::kGldVersion);
  EXPECT_EQ(required.field, "required");
  EXPECT_EQ(EnvelopeError([](cbor::Map* map) { map->Set("schema", "tinyrustlm.golden.v2"); }).code,
            ErrorCode::kGldVersion);
}

TEST(GoldenReject, HeaderAndPadding) {
  Bytes file = WriteSmall();
  file[20] = 1;
  EXPECT_EQ(ErrorOf(file).code, ErrorCode::kGldPad);
  EXPECT_EQ(ErrorOf(file).byte_offset, 20u);
  file = WriteSmall();
  file[64 + 8] = 1;  // after the first blob, two floats
  EXPECT_EQ(ErrorOf(file).code, ErrorCode::kGldPad);
  EXPECT_EQ(ErrorOf(file).byte_offset, 72u);
  file = WriteSmall();
  file[64] ^= 1;
  EXPECT_EQ(ErrorOf(file).code, ErrorCode::kGldBlob);
  EXPECT_EQ(ErrorOf(file).byte_offset, 64u);
  EXPECT_EQ(ErrorOf(file).field, "blobs.0");
}

TEST(GoldenReject, FooterRanges) {
  const Bytes file = WriteSmall();
  const size_t footer = file.size() - kFooterBytes;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{64}}) {
    Bytes damaged = file;
    StoreLe(damaged.data() + footer, offset);
    EXPECT_EQ(ErrorOf(damaged).code, ErrorCode::kGldEnvelope) << offset;
    EXPECT_EQ(ErrorOf(damaged).byte_offset, footer);
  }
  Bytes damaged = file;
  StoreLe(damaged.data() + footer + 8, ~uint64_t{0});
  EXPECT_EQ(ErrorOf(damaged).code, ErrorCode::kGldEnvelope);
}

TEST(GoldenReject, EnvelopeThatIsNotDeterministicCbor) {
  const Bytes file = WriteSmall();
  const Error error = ErrorOf(Rewrap(file, Bytes{0xa1, 0x61, 'a', 0x18, 0x01}));
  EXPECT_EQ(error.code, ErrorCode::kGldEnvelope);
  EXPECT_EQ(error.cause, ErrorCode::kCborNonShortest);
  EXPECT_EQ(ErrorOf(Rewrap(file, Bytes{0x80})).code, ErrorCode::kGldSchema);
}

TEST(GoldenReject, Gld02UnknownMissingAndNullKeys) {
  const Error unknown = EnvelopeError([](cbor::Map* map) { map->Set("comment", "x"); });
  EXPECT_EQ(unknown.code, ErrorCode::kGldSchema);
  EXPECT_EQ(unknown.cause, ErrorCode::kSchemaUnknownKey);
  EXPECT_EQ(unknown.field, "comment");
  const Error null = EnvelopeError([](cbor::Map* map) { map->Set("tensors", cbor::Value()); });
  EXPECT_EQ(null.cause, ErrorCode::kSchemaNull);
  EXPECT_EQ(null.field, "tensors");
  const Error mode = EnvelopeError([](cbor::Map* map) { map->Set("mode", "guess"); });
  EXPECT_EQ(mode.code, ErrorCode::kGldSchema);
  EXPECT_EQ(mode.field, "mode");
  const Error kind = EnvelopeError([](cbor::Map* map) { map->Set("cases", cbor::Array{1}); });
  EXPECT_EQ(kind.cause, ErrorCode::kSchemaType);
  EXPECT_EQ(kind.field, "cases.0");
}

TEST(GoldenReject, UnknownKeyInsideACase) {
  const Error error = EnvelopeError([](cbor::Map* map) {
    cbor::Array cases = *map->Find("cases")->AsArray();
    cbor::Map one = *cases[0].AsMap();
    one.Set("seed", 1);
    cases[0] = one;
    map->Set("cases", cases);
  });
  EXPECT_EQ(error.cause, ErrorCode::kSchemaUnknownKey);
  EXPECT_EQ(error.field, "cases.0.seed");
}

struct Rejected {
  const char* name;
  std::function<void(Content*)> change;
  ErrorCode code;
  const char* field;
};

TEST(GoldenReject, ContentThatContradictsItself) {
  const auto observation = [](size_t index, auto change) {
    return [index, change](Content* content) { change(&content->cases[0].observations[index]); };
  };
  const std::vector<Rejected> table = {
      {"unknown identity", [](Content* c) { c->identities["seed"] = {}; }, ErrorCode::kGldSchema,
       "identities.seed"},
      {"generator hash", [](Content* c) { c->generator.Set("note", "other"); }, ErrorCode::kGldSchema,
       "identities.generator"},
      {"source hash", [](Content* c) { c->source_files[0].size = 2; }, ErrorCode::kGldSchema,
       "identities.source"},
      {"config hash", [](Content* c) { c->effective_config[0].value = 3; }, ErrorCode::kGldSchema,
       "identities.config"},
      {"default without a line", [](Content* c) { c->effective_config[1].line = 0; }, ErrorCode::kGldSchema,
       "effective_config.norm_eps"},
      {"tensors twice", [](Content* c) { c->tensors.push_back(c->tensors[0]); }, ErrorCode::kGldSchema,
       "tensors"},
      {"case id twice", [](Content* c) { c->cases[1].case_id = "first"; }, ErrorCode::kGldSchema, "first"},
      {"private data", [](Content* c) { c->cases[1].input = Bytes{'s'}; }, ErrorCode::kGldSchema, "second"},
      {"private ids", [](Content* c) { c->cases[1].ids = {1}; }, ErrorCode::kGldSchema, "second"},
      {"ill-formed text", [](Content* c) { (*c->cases[0].input)[2] = 'x'; }, ErrorCode::kGldSchema,
       "first.input.data"},
      {"positions", [](Content* c) { c->cases[0].positions.count = 4; }, ErrorCode::kGldSchema,
       "first.positions"},
      {"mask", [](Content* c) { c->cases[0].mask = "full"; }, ErrorCode::kGldSchema, "first.mask"},
      {"offset past the text", [](Content* c) { c->cases[0].tokenizations[0].byte_offsets[2].second = 4; },
       ErrorCode::kGldSchema, "first.tokenizations"},
      {"owners without a rendered prompt", [](Content* c) { c->cases[0].ownership = {{0, 1, "template"}}; },
       ErrorCode::kGldSchema, "first.ownership"},
      {"owners with a hole", [](Content* c) { Own(c, {{0, 2, "template"}, {3, 4, "bos_token"}}); },
       ErrorCode::kGldSchema, "first.ownership"},
      {"owners past the prompt", [](Content* c) { Own(c, {{0, 2, "template"}, {2, 5, "bos_token"}}); },
       ErrorCode::kGldSchema, "first.ownership"},
      {"one owner cut in two", [](Content* c) { Own(c, {{0, 2, "template"}, {2, 4, "template"}}); },
       ErrorCode::kGldSchema, "first.ownership"},
      {"an empty interval", [](Content* c) { Own(c, {{0, 0, "bos_token"}, {0, 4, "template"}}); },
       ErrorCode::kGldSchema, "first.ownership"},
      {"scalar past the text", [](Content* c) { c->cases[0].tokenizations[0].scalar_offsets[2].second = 3; },
       ErrorCode::kGldSchema, "first.tokenizations"},
      {"a token changed", [](Content* c) { c->cases[0].generation->tokens[0] = 9; }, ErrorCode::kGldSchema,
       "first.generation"},
      {"a gap missing", [](Content* c) { c->cases[0].generation->gaps.pop_back(); }, ErrorCode::kGldSchema,
       "first.generation"},
      {"too many tokens", [](Content* c) { c->cases[0].max_new_tokens = 1; }, ErrorCode::kGldSchema,
       "first.generation"},
      {"name", observation(0, [](Observation* o) { o->name = "layers.1.output"; }), ErrorCode::kGldSchema,
       "layers.1.output"},
      {"name twice", observation(1, [](Observation* o) { o->role = "output", o->name = "layers.0.output"; }),
       ErrorCode::kGldSchema, "first.observations"},
      {"zero axis", observation(0, [](Observation* o) { o->shape = {2, 0}; }), ErrorCode::kGldShape,
       "layers.0.output"},
      {"huge axis", observation(0, [](Observation* o) { o->shape = {2, uint64_t{1} << 40}; }),
       ErrorCode::kGldShape, "layers.0.output"},
      {"overflowing shape",
       observation(0, [](Observation* o) { o->shape = {1u << 31, 1u << 31, 1u << 31, 4}; }),
       ErrorCode::kGldShape, "layers.0.output"},
      {"five axes", observation(0, [](Observation* o) { o->shape = {1, 1, 1, 2, 2}; }), ErrorCode::kGldShape,
       "layers.0.output"},
      {"dtype", observation(0, [](Observation* o) { o->dtype = DType::kF64; }), ErrorCode::kGldShape,
       "layers.0.output"},
      {"bits without packing", observation(2, [](Observation* o) { o->layout = Layout::kRowMajor; }),
       ErrorCode::kGldShape, "layers.0.attn.mask"},
      {"rows past the end", observation(0, [](Observation* o) { o->rows = Interval{2, 2}; }),
       ErrorCode::kGldShape, "layers.0.output"},
      {"rows overflow", observation(0, [](Observation* o) { o->rows = Interval{~uint64_t{0}, 2}; }),
       ErrorCode::kGldShape, "layers.0.output"},
      {"rows missing", observation(0, [](Observation* o) { o->rows.reset(); }), ErrorCode::kGldShape,
       "layers.0.output"},
      {"packed rows", observation(1, [](Observation* o) { o->rows = Interval{0, 2}; }), ErrorCode::kGldShape,
       "layers.0.attn.scores"},
      {"columns", observation(3, [](Observation* o) { o->columns = Interval{8, 2}; }), ErrorCode::kGldShape,
       "logits"},
      {"all columns", observation(3, [](Observation* o) { o->full_columns = 2; }), ErrorCode::kGldShape,
       "logits"},
      {"blob index", observation(0, [](Observation* o) { o->blob = 6; }), ErrorCode::kGldBlob,
       "layers.0.output"},
      {"attachment blob", [](Content* c) { c->attachments[0].blob = 99; }, ErrorCode::kGldBlob,
       "effective-tokenizer.json"},
      {"unused blob", [](Content* c) { c->attachments.clear(); }, ErrorCode::kGldBlob, "blobs.1"},
  };
  for (const Rejected& row : table) {
    SCOPED_TRACE(row.name);
    const Error error = ContentError(row.change);
    EXPECT_EQ(error.code, row.code) << error.ToString();
    EXPECT_EQ(error.field, row.field);
  }
}

TEST(GoldenReject, SpareBitsOfTheMask) {
  Bytes file;
  GoldenWriter writer([&file](ByteSpan bytes) -> Status {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  });
  Content content = MakeSmallContent(&writer);
  content.cases[0].observations[2].blob = writer.AddBlob(Bytes{0x03, 0x0f}).value();
  content.cases[0].observations[2].shape = {2, 3};
  Observation old = content.cases[0].observations[2];
  old.name = old.role = "attn.mask";
  old.layer.reset();
  old.blob = 4;
  content.cases[0].observations.push_back(old);
  ASSERT_TRUE(writer.Finish(std::move(content)).has_value());
  const Error error = ErrorOf(file);
  EXPECT_EQ(error.code, ErrorCode::kGldPad);
  EXPECT_EQ(error.field, "layers.0.attn.mask");
}

TEST(GoldenReject, BlobTable) {
  const Bytes file = WriteSmall();
  const auto with_blobs = [&file](const std::function<void(std::vector<Blob>*)>& change) {
    auto golden = Golden::FromBytes(file);
    std::vector<Blob> blobs = (*golden)->blobs();
    change(&blobs);
    return ErrorOf(Rewrap(file, cbor::Encode(EncodeContent((*golden)->content(), blobs))));
  };
  EXPECT_EQ(with_blobs([](auto* blobs) { (*blobs)[1].offset += 64; }).code, ErrorCode::kGldBlob);
  EXPECT_EQ(with_blobs([](auto* blobs) { (*blobs)[0].size = 0; }).code, ErrorCode::kGldBlob);
  EXPECT_EQ(with_blobs([](auto* blobs) { blobs->back().size = uint64_t{1} << 50; }).code,
            ErrorCode::kGldBlob);
  EXPECT_EQ(with_blobs([](auto* blobs) { blobs->pop_back(); }).code, ErrorCode::kGldBlob);
  EXPECT_EQ(with_blobs([](auto* blobs) { std::swap((*blobs)[0], (*blobs)[1]); }).code, ErrorCode::kGldBlob);
}

}  // namespace
}  // namespace slm::golden
