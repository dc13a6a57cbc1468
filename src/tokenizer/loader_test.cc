// Malformed tokenizer files: the code, the byte offset and the JSON path of each refusal.
#include <gtest/gtest.h>

#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

struct BadFile {
  const char* name;
  std::string text;
  ErrorCode code;
  const char* at;  // the offending text: its first place is the offset
  const char* field;
};

std::string WithModel(const std::string& members) {
  return R"({"model":{"type":"BPE",)" + members + "}}";
}
std::string With(const std::string& members) {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]},)" + members + "}";
}
std::string Added(const std::string& id, const std::string& content) {
  return R"({"id":)" + id + R"(,"content":")" + content +
         R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
}

void Expect(const BadFile& bad) {
  const auto loaded = Tokenizer::FromJson(bad.text);
  ASSERT_FALSE(loaded.has_value()) << bad.name;
  EXPECT_EQ(loaded.error().CodeText(), Info(bad.code).name) << bad.name << ": " << loaded.error().ToString();
  EXPECT_EQ(loaded.error().byte_offset, bad.text.find(bad.at))
      << bad.name << ": " << loaded.error().ToString();
  EXPECT_EQ(loaded.error().field, bad.field) << bad.name;
}

// The published files of cl100k and o200k: the vocabulary's own ids have no gap, the added tokens' have.
TEST(Loader, Tok07AddedTokensMayLeaveIdsFree) {
  const auto loaded = Tokenizer::FromJson(
      R"({"added_tokens":[{"id":4,"content":"z","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":true}],"model":{"type":"BPE","vocab":{"a":0,"b":1,"z":4},"merges":[]}})");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  EXPECT_EQ((*loaded)->Encode("azb", {})->ids, (std::vector<uint32_t>{0, 4, 1}));
  EXPECT_EQ((*loaded)->Decode(std::vector<uint32_t>{3}, DecodeMode::kRaw).error().code,
            ErrorCode::kTokUnknownId);
}

TEST(Loader, Tok07AppendixGVocabulary) {
  const std::string vocab = "$.model.vocab";
  const BadFile cases[] = {
      {"G07 negative", WithModel(R"("vocab":{"a":-1},"merges":[])"), ErrorCode::kTokId, "-1", vocab.c_str()},
      {"G07 fraction", WithModel(R"("vocab":{"a":1.0},"merges":[])"), ErrorCode::kTokId, "1.0",
       vocab.c_str()},
      {"G07 2^40", WithModel(R"("vocab":{"a":1099511627776},"merges":[])"), ErrorCode::kTokId, "1099",
       vocab.c_str()},
      {"G07 text", WithModel(R"("vocab":{"a":"7"},"merges":[])"), ErrorCode::kTokId, "\"7\"", vocab.c_str()},
      {"G08", WithModel(R"("vocab":{"a":0,"b":1,"c":0},"merges":[])"), ErrorCode::kTokIdDup, "0},",
       vocab.c_str()},
      {"G09", WithModel(R"("vocab":{"a":0,"b":3},"merges":[])"), ErrorCode::kTokIdGap, "3}", vocab.c_str()},
      {"G09 below an added token's id",
       R"({"added_tokens":[{"id":5,"content":"z","single_word":false,"lstrip":false,"rstrip":false,)"
       R"("normalized":false,"special":true}],"model":{"type":"BPE","vocab":{"a":0,"b":3,"z":5},"merges":[]}})",
       ErrorCode::kTokIdGap, "3,", vocab.c_str()},
      {"G10", WithModel(R"("vocab":{"a":0,"b":1},"merges":[["a","x"]])"), ErrorCode::kTokMerge, "[\"a\"",
       "$.model.merges[0]"},
      {"G10 result", WithModel(R"("vocab":{"a":0,"b":1},"merges":["a b"])"), ErrorCode::kTokMerge, "\"a b\"",
       "$.model.merges[0]"},
      {"merge with two spaces", WithModel(R"("vocab":{"a":0," ":1},"merges":["a  "])"), ErrorCode::kTokSchema,
       "\"a  \"", "$.model.merges[0]"},
      {"G11", WithModel(R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b","a b"])"), ErrorCode::kTokMergeDup,
       "\"a b\"]", "$.model.merges[1]"},
      {"G11 before G10", WithModel(R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b","a b","a x"])"),
       ErrorCode::kTokMergeDup, "\"a b\",\"a x", "$.model.merges[1]"},
      {"G10 before G11", WithModel(R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b","a x","a b"])"),
       ErrorCode::kTokMerge, "\"a x\"", "$.model.merges[1]"},
      {"prefix longer than the part",
       WithModel(R"("continuing_subword_prefix":"###","vocab":{"a":0,"b":1},"merges":["a b"])"),
       ErrorCode::kTokMerge, "\"a b\"", "$.model.merges[0]"},
      {"duplicate key", WithModel(R"("vocab":{"a":0,"a":1},"merges":[])"), ErrorCode::kJsonDupKey, "\"a\":1",
       "a"},
      {"dropout", WithModel(R"("dropout":0.1,"vocab":{"a":0},"merges":[])"), ErrorCode::kTokDropout, "0.1",
       "$.model.dropout"},
      {"no merges", WithModel(R"("vocab":{"a":0})"), ErrorCode::kTokSchema, "{\"type\"", "$.model.merges"},
      {"unknown option", WithModel(R"("vocab":{"a":0},"merges":[],"magic":1)"), ErrorCode::kTokUnknownType,
       "\"magic\"", "$.model.magic"},
      {"G12", R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e999]]}})", ErrorCode::kTokScore,
       "1e999", "$.model.vocab[0][1]"},
      {"merge of three", WithModel(R"("vocab":{"a":0},"merges":[["a","a","a"]])"), ErrorCode::kTokSchema,
       "[\"a\",", "$.model.merges[0]"},
      {"merge that is a number", WithModel(R"("vocab":{"a":0},"merges":[["a",1]])"), ErrorCode::kTokSchema,
       "[\"a\",", "$.model.merges[0]"},
      {"merges of two forms", WithModel(R"("vocab":{"a":0,"aa":1},"merges":["a a",["a","a"]])"),
       ErrorCode::kTokSchema, "[\"a\",", "$.model.merges[1]"},
      {"unk_id outside", R"({"model":{"type":"Unigram","unk_id":7,"vocab":[["a",-1]]}})", ErrorCode::kTokId,
       "7", "$.model.unk_id"},
      {"piece twice", R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",-1],["a",-2]]}})",
       ErrorCode::kTokIdDup, "[\"a\",-2]", "$.model.vocab"},
      {"score as text", R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a","NaN"]]}})",
       ErrorCode::kTokScore, "\"NaN\"", "$.model.vocab[0][1]"},
      {"wordpiece",
       R"({"model":{"type":"WordPiece","vocab":{"a":0},"unk_token":"a","continuing_subword_prefix":"#"}})",
       ErrorCode::kTokSchema, "{\"type\"", "$.model.max_input_chars_per_word"},
      {"unknown model", R"({"model":{"type":"Bigram","vocab":{}}})", ErrorCode::kTokUnknownType, "\"Bigram\"",
       "$.model.type"},
  };
  for (const BadFile& bad : cases) Expect(bad);
}

TEST(Loader, Tok05HugePieceIsRefused) {
  const std::string text =
      WithModel("\"vocab\":{\"a\":0,\"" + std::string(200000, 'x') + "\":1},\"merges\":[]");
  const auto loaded = Tokenizer::FromJson(text);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kTokLimit);
  EXPECT_EQ(loaded.error().byte_offset, text.find("\"xxx"));
  EXPECT_LT(loaded.error().message.size(), 300u);
}

TEST(Loader, Tok07ComponentsAndOptions) {
  const BadFile cases[] = {
      {"unknown pre-tokenizer", With(R"("pre_tokenizer":{"type":"Bogus"})"), ErrorCode::kTokUnknownType,
       "\"Bogus\"", "$.pre_tokenizer.type"},
      {"length 0", With(R"("pre_tokenizer":{"type":"FixedLength","length":0})"), ErrorCode::kTokSchema, "0}}",
       "$.pre_tokenizer.length"},
      {"behavior", With(R"("pre_tokenizer":{"type":"Punctuation","behavior":"removed"})"),
       ErrorCode::kTokUnknownType, "\"removed\"", "$.pre_tokenizer.behavior"},
      {"inside a sequence",
       With(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFZ"}]})"),
       ErrorCode::kTokUnknownType, "\"NFZ\"", "$.normalizer.normalizers[1].type"},
      {"untyped", With(R"("decoder":{"content":" "})"), ErrorCode::kTokSchema, "{\"content\"", "$.decoder"},
      {"missing trim_offsets", With(R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true})"),
       ErrorCode::kTokSchema, "{\"type\":\"ByteLevel\"", "$.pre_tokenizer.trim_offsets"},
      {"metaspace conflict",
       With(R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","add_prefix_space":false})"),
       ErrorCode::kTokSchema, "false", "$.pre_tokenizer.add_prefix_space"},
      {"metaspace replacement", With(R"("pre_tokenizer":{"type":"Metaspace","replacement":"__"})"),
       ErrorCode::kTokSchema, "\"__\"", "$.pre_tokenizer.replacement"},
      {"G15", With(R"("normalizer":{"type":"Replace","pattern":{"Regex":"(?<=a(?=b))b"},"content":""})"),
       ErrorCode::kTokRegex, "\"(?<=", "$.normalizer.pattern.Regex"},
      {"G15 back-reference",
       With(
           R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)\\1"},"behavior":"Isolated","invert":false})"),
       ErrorCode::kTokRegex, "\"(a+)", "$.pre_tokenizer.pattern.Regex"},
      {"regex", With(R"("normalizer":{"type":"Replace","pattern":{"Regex":"a("},"content":""})"),
       ErrorCode::kTokRegex, "\"a(\"", "$.normalizer.pattern.Regex"},
      {"G13 base64", With(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"!!"})"),
       ErrorCode::kTokCharsmap, "\"!!\"", "$.normalizer.precompiled_charsmap"},
      {"G13 root", With(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAD8//8="})"),
       ErrorCode::kTokCharsmap, "\"BAAA", "$.normalizer.precompiled_charsmap"},
      {"template",
       With(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[X]",)"
            R"("type_id":0}}],"pair":[],"special_tokens":{}})"),
       ErrorCode::kTplToken, "\"[X]\"", "$.post_processor.single[0].SpecialToken.id"},
      {"template id",
       With(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x",)"
            R"("type_id":0}}],"pair":[],"special_tokens":{"x":{"id":"x","ids":[77],"tokens":["x"]}}})"),
       ErrorCode::kTokId, "{\"type\":\"TemplateProcessing\"", "$.post_processor"},
      {"stride",
       With(R"("truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":2})"),
       ErrorCode::kTokSchema, "2}}", "$.truncation.stride"},
      {"padding",
       With(R"("padding":{"strategy":{"Fixed":999999999},"direction":"Right","pad_to_multiple_of":null,)"
            R"("pad_id":0,"pad_type_id":0,"pad_token":"a"})"),
       ErrorCode::kTokLimit, "{\"strategy\"", "$.padding"},
      {"top level", With(R"("zzz":1)"), ErrorCode::kTokUnknownType, "\"zzz\"", "$.zzz"},
      {"version", With(R"("version":"2.0")"), ErrorCode::kTokSchema, "\"2.0\"", "$.version"},
      {"added id", With(R"("added_tokens":[)" + Added("999", "<s>") + "]"), ErrorCode::kTokAddedId, "999",
       "$.added_tokens[0].id"},
      {"added twice", With(R"("added_tokens":[)" + Added("3", "<s>") + "," + Added("4", "<s>") + "]"),
       ErrorCode::kTokAddedDup, "{\"id\":4", "$.added_tokens[1]"},
  };
  for (const BadFile& bad : cases) Expect(bad);
}

// Lenient: what the reference does with the same files.
TEST(Loader, Tok09LenientFollowsTheReference) {
  for (const std::string& text : {WithModel(R"("vocab":{"a":0,"b":3},"merges":[])"),
                                  WithModel(R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b","a b"])"),
                                  With(R"("added_tokens":[)" + Added("999", "<s>") + "]")}) {
    EXPECT_TRUE(Tokenizer::FromJson(text, {.lenient = true}).has_value()) << text;
  }
  // Two texts with one id are refused even so: what decoding gives is open in the reference.
  const auto loaded =
      Tokenizer::FromJson(WithModel(R"("vocab":{"a":0,"b":0},"merges":[])"), {.lenient = true});
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, ErrorCode::kTokIdDup);
}

}  // namespace
}  // namespace slm::tokenizer
