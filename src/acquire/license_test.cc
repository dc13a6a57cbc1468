// ACQ-08: what counts as evidence of a license. Hashes of normalized texts come from a separate
// program in another language, run over the license files of installed packages.
#include "acquire/license.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "acquire/embedded.h"
#include "codec/sha256.h"

namespace slm::acquire {
namespace {

// The terms of the MIT license, in the words of its template; blanks do not matter.
constexpr char kMitTerms[] =
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and "
    "associated "
    "documentation files (the \"Software\"), to deal in the Software without restriction, including without "
    "limitation "
    "the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the "
    "Software, and "
    "to permit persons to whom the Software is furnished to do so, subject to the following "
    "conditions:\n\nThe above "
    "copyright notice and this permission notice shall be included in all copies or substantial portions of "
    "the "
    "Software.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, "
    "INCLUDING BUT "
    "NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. "
    "IN NO "
    "EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, "
    "WHETHER IN AN "
    "ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE "
    "USE OR "
    "OTHER DEALINGS IN THE SOFTWARE.\n";

std::string Mit(std::string_view head = "MIT License\n\nCopyright (c) 2026 Some One\n\n") {
  return std::string(head) + kMitTerms;
}

class LicenseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tables = ParseLicenseTables(EmbeddedLicenseCards(), EmbeddedLicenseTexts());
    ASSERT_TRUE(tables.has_value()) << tables.error().ToString();
    tables_ = *std::move(tables);
  }
  // `card` empty: no README.md.
  LicenseFinding Judge(std::string_view card, const std::vector<std::string>& texts) {
    std::vector<LicenseFile> files;
    for (size_t i = 0; i < texts.size(); ++i) {
      files.push_back({"LICENSE" + std::to_string(i), Sha256Of(AsBytes(texts[i])), texts[i]});
    }
    return JudgeLicense(tables_, card.empty() ? "" : "README.md", Sha256Of(AsBytes(card)), card, files);
  }
  LicenseTables tables_;
};

TEST(ModelCardTest, Acq08ReadsTheSubset) {
  const auto values = [](std::string_view card) { return ReadCardLicense(card).values; };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(values("---\nlicense: mit\n---\n"), Texts{"mit"});
  EXPECT_EQ(values("---\r\nlicense: mit\r\n---\r\n"), Texts{"mit"});
  EXPECT_EQ(values("---\nlanguage: [en]\nlicense: \"apache-2.0\" # yes\n---\n"), Texts{"apache-2.0"});
  EXPECT_EQ(values("---\nlicense: 'it''s'\n---\n"), Texts{"it's"});
  EXPECT_EQ(values("---\nlicense: [mit, apache-2.0]\n---\n"), (Texts{"mit", "apache-2.0"}));
  EXPECT_EQ(values("---\nlicense:\n- mit\n- 'isc'\ntags: x\n---\n"), (Texts{"mit", "isc"}));
  EXPECT_EQ(values("---\nmodel:\n  license: mit\n---\n"), Texts{});
  EXPECT_EQ(values("license: mit\n"), Texts{});  // no front matter
  EXPECT_EQ(values("text\n---\nlicense: mit\n---\n"), Texts{});
  const CardLicense other =
      ReadCardLicense("---\nlicense: other\nlicense_name: my-own\nlicense_link: LICENSE\n---\n");
  EXPECT_EQ(other.name, "my-own");
  EXPECT_EQ(other.link, "LICENSE");
  EXPECT_EQ(other.byte_offset, 13u);
  for (const char* odd :
       {"license: &a mit", "license: |\n  mit", "license: {a: b}", "license: mit: x", "license: mit\n  more",
        "license:\n  name: mit", "license:\n  mit\n  more", "license:\n- mit\n  isc",
        "license:\n  - mit\n  isc", "license: [mit", "license: \"mit", "license: \"a\\x62\""}) {
    const CardLicense card = ReadCardLicense("---\n" + std::string(odd) + "\n---\n");
    EXPECT_TRUE(card.is_declared) << odd;
    EXPECT_FALSE(card.is_plain) << odd;
  }
  EXPECT_TRUE(ReadCardLicense("---\nlicense: mit\nlicense: isc\n---\n").stands_twice);
}

// Front matter that a reader of YAML, or the hub, takes a license from, and that this one does not
// understand: never silence. (PyYAML 6.0.4 or the hub's own pattern finds `license` in each of them.)
TEST(ModelCardTest, Acq08WhatIsNotUnderstoodIsNotSilence) {
  for (const char* card : {"---\n{license: mit}\n---\n",
                           "---\n  license: mit\n---\n",
                           "---\n? license\n: mit\n---\n",
                           "---\n<<: {license: mit}\n---\n",
                           "---\na: &x {license: mit}\n<<: *x\n---\n",
                           "\n---\nlicense: mit\n---\n",
                           "  ---\nlicense: mit\n---\n",
                           "--- \nlicense: mit\n---\n",
                           "---\nlicense: mit\n...\n",
                           "---\nlicense: mit\n",
                           "\xef\xbb\xbf---\nlicense: mit\n---\n",
                           "--- # card\nlicense: mit\n---\n",
                           "---\n\"licen\\x73e\": mit\n---\n",
                           "---\n!!str license: mit\n---\n",
                           "---\n&a license: mit\n---\n",
                           "---\nlicense: !!str mit\n---\n",
                           "---\na: b\xc2\x85license: mit\n---\n",
                           "---\n- license: mit\n---\n",
                           "---\ntitle: \"x\nlicense: mit\n\"\n---\n",
                           "---\nx: [a,\n\"]\nlicense: mit\n\"]\n---\n",
                           "---\nLicense: mit\n---\n",
                           "---\nlicence: mit\n---\n",
                           "---\nlicense_name: own\nlicense_link: LICENSE\n---\n",
                           "---\nlicense:mit\n---\n"}) {
    const CardLicense license = ReadCardLicense(card);
    EXPECT_TRUE(license.is_declared) << card;
    EXPECT_FALSE(license.is_plain) << card;
    EXPECT_TRUE(license.values.empty() || license.values[0] != "mit") << card;
  }
  // Line ends of either kind are read.
  for (const char* card : {"---\ra: 1\rlicense: mit\r---\r", "---\na: 1\rlicense: mit\n---\n"}) {
    EXPECT_EQ(ReadCardLicense(card).values, std::vector<std::string>{"mit"}) << card;
  }
  // And no license is found where there is none to find.
  for (const char* card : {"", "# text\n", "----\nlicense: mit\n----\n", "# x\n---\nlicense: mit\n---\n",
                           "---\ntags: [a,\n  b]\nwidget:\n- text: \"x\n    y\"\n---\nlicense: mit\n",
                           "---\nmodel:\n  license: mit\n---\n"}) {
    EXPECT_FALSE(ReadCardLicense(card).is_declared) << card;
  }
  // A card as the hub has them.
  const CardLicense ordinary = ReadCardLicense(
      "---\nlanguage:\n- en\ntags: [a,\n  b\n]\nmodel-index:\n- name: x\n  results:\n    - {type: y}\n"
      "extra_gated_prompt: >-\n  You \"may\n  say: \"so\n# comment\nlicense: apache-2.0\nwidget:\n  - text: "
      "'It''s'\n---\n");
  EXPECT_TRUE(ordinary.is_plain);
  EXPECT_EQ(ordinary.values, std::vector<std::string>{"apache-2.0"});
}

// Forms that YAML 1.2 gives one and the same value.
TEST(ModelCardTest, Acq08OneValueInManyForms) {
  for (const char* line :
       {"license: mit # as agreed", "license: mit\t# x", "license: \"mit\" # x", "license: 'mit'",
        "license: [mit] # x", "license: [ 'mit' ]", "license:\n- mit # x", "license:\n  - mit",
        "license: # below\n- mit", "license:\n  mit", "license:\n\n    'mit' # x", "\"license\": mit",
        "license : mit"}) {
    const CardLicense card = ReadCardLicense("---\n" + std::string(line) + "\n---\n");
    EXPECT_TRUE(card.is_declared && card.is_plain) << line;
    EXPECT_EQ(card.values, std::vector<std::string>{"mit"}) << line;
  }
  EXPECT_EQ(ReadCardLicense("---\nlicense: mit#x\n---\n").values, std::vector<std::string>{"mit#x"})
      << "no comment without a blank before it";
}

// SPDX 2.3, annex D.
TEST(SpdxTest, Acq08Expressions) {
  const auto list = ParseSpdxList(EmbeddedSpdxList());
  ASSERT_TRUE(list.has_value()) << list.error().ToString();
  for (const char* good : {"MIT", "Apache-2.0", "GPL-2.0+", "LicenseRef-acme", "MIT OR Apache-2.0",
                           "(MIT AND ISC) OR 0BSD", "GPL-2.0-only WITH Classpath-exception-2.0", "((MIT))"}) {
    EXPECT_EQ(SpdxFault(*list, good), "") << good;
  }
  for (const char* bad :
       {"", " ", "MIT Apache-2.0", "MIT OR", "OR MIT", "(MIT", "MIT)", "()", "MIT WITH", "MIT with x",
        "(MIT) WITH x", "MIT WITH x WITH y", "MIT AND OR ISC", "LicenseRef-", "MIT/ISC", "MIT_1"}) {
    EXPECT_TRUE(SpdxFault(*list, bad).starts_with("choice must be an SPDX expression")) << bad;
  }
  for (const char* unlisted : {"other", "unknown", "FooBarLicense", "mit", "MIT OR Foo", "MIT WITH Foo",
                               "Classpath-exception-2.0", "GPL-2.0-only WITH MIT"}) {
    EXPECT_NE(SpdxFault(*list, unlisted).find("not on the SPDX License List"), std::string::npos) << unlisted;
  }
  EXPECT_GT(list->licenses.size(), 600u);
  EXPECT_FALSE(ParseSpdxList(R"({"licenses":["B","A"],"exceptions":["x"]})").has_value());
}

// Identifiers that the hub offers for model cards, each naming one license.
TEST_F(LicenseTest, Acq08OrdinaryCardsNeedNoDecision) {
  for (const char* id : {"apache-2.0",
                         "mit",
                         "openrail",
                         "openrail++",
                         "bigscience-openrail-m",
                         "creativeml-openrail-m",
                         "afl-3.0",
                         "bigscience-bloom-rail-1.0",
                         "bigcode-openrail-m",
                         "bsl-1.0",
                         "bsd-2-clause",
                         "bsd-3-clause",
                         "cc0-1.0",
                         "cc-by-4.0",
                         "cc-by-sa-4.0",
                         "cc-by-nc-4.0",
                         "cc-by-nc-sa-4.0",
                         "cc-by-nc-nd-4.0",
                         "etalab-2.0",
                         "c-uda",
                         "cdla-permissive-2.0",
                         "agpl-3.0",
                         "gpl-3.0",
                         "lgpl-3.0",
                         "mpl-2.0",
                         "odbl",
                         "unlicense",
                         "llama2",
                         "llama3",
                         "llama3.1",
                         "llama3.2",
                         "llama3.3",
                         "llama4",
                         "gemma",
                         "openmdw-1.0",
                         "apple-amlr",
                         "lppl-1.3c"}) {
    const std::string card = "---\nlicense: " + std::string(id) + "\n---\n";
    const auto tables = ParseLicenseTables(EmbeddedLicenseCards(), EmbeddedLicenseTexts());
    ASSERT_TRUE(tables.has_value());
    EXPECT_FALSE(JudgeLicense(*tables, "README.md", Hash256{}, card, {}).open) << id;
  }
}

TEST_F(LicenseTest, Acq08CardOrTextIsEnough) {
  EXPECT_EQ(Judge("---\nlicense: apache-2.0\n---\n", {}).spdx, "Apache-2.0");
  EXPECT_EQ(Judge("---\nlicense: llama3.2\n---\n", {}).spdx, "LicenseRef-llama3.2");
  EXPECT_EQ(Judge("", {Mit()}).spdx, "MIT");
  EXPECT_EQ(Judge("# no front matter\n", {Mit()}).spdx, "MIT");
  const LicenseFinding both = Judge("---\nlicense: mit\n---\n", {Mit()});
  EXPECT_EQ(both.spdx, "MIT");
  EXPECT_FALSE(both.open.has_value());
  ASSERT_EQ(both.evidence.size(), 2u);
  EXPECT_EQ(both.evidence[0].rule, "card");
  EXPECT_EQ(both.evidence[0].byte_offset, 13u);
  EXPECT_EQ(both.evidence[1].rule, "template-text");
}

TEST_F(LicenseTest, Acq08TemplatesOfMit) {
  // Computed by the other program over 320 copies of this license.
  EXPECT_EQ(ToHex(Sha256Of(AsBytes(NormalizeLicenseText(Mit())))),
            "fe2a9817987f862eaced948f0468c7f51d2fedfc48c5c505b246a49a3870e9a5");
  for (const char* head :
       {"", "The MIT License (MIT)\n\nCopyright 2020 X, Inc. All rights reserved.\n",
        "# MIT License\r\n\r\nCopyright \xc2\xa9 2019-2026 Y\r\nCopyright (C) Z\r\n\r\n"}) {
    EXPECT_EQ(Judge("", {Mit(head)}).spdx, "MIT") << head;
  }
  // Terms that hide in a notice, in a title or after the text make it another license.
  for (const char* head :
       {"Copyright (c) 2026 X. Commercial use is forbidden.\n", "MIT License, research only\n",
        "MIT License (not for sale)\n", "You must pay.\n"}) {
    EXPECT_EQ(Judge("", {Mit(head)}).open, ErrorCode::kLicTextUnknown) << head;
  }
  EXPECT_EQ(Judge("", {Mit() + "\nNo military use.\n"}).open, ErrorCode::kLicTextUnknown);
  EXPECT_EQ(Judge("", {Mit() + "\nCopyright 2024 ACME. Military and academic use are disallowed.\n"}).open,
            ErrorCode::kLicTextUnknown);
}

// Only a title and a holder's name are dropped; nothing that could carry terms is either.
TEST(LicenseNoticeTest, Acq08ClosedForms) {
  for (const char* line :
       {"Copyright (c) 2026 Some One", "Copyright 2018- The Hugging Face team. All rights reserved.",
        "Copyright (c) 2015-2024 Jane Q. Doe <jane@example.org> and contributors", "(c) 2020 huggingface",
        "\xc2\xa9 2019 M\xc3\xbcller GmbH", "Copyright 2023 Allen Institute for AI",
        "Copyright (c) Meta Platforms, Inc. and affiliates.", "# Copyright (c) 2020, 2021 X",
        "Copyright (C) Z", "Copyright (c) 2022 EleutherAI (https://www.eleuther.ai)"}) {
    EXPECT_TRUE(IsCopyrightLine(line, false)) << line;
  }
  for (const char* line :
       {"Copyright 2024 ACME. Military and academic use are disallowed.", "Copyright 2024 ACME; see terms",
        "Copyright (c) 2024 X. Military use disallowed; fee of 1000 EUR a year applies.",
        "Copyright 2024 ACME. Void outside France.", "Copyright 2024 ACME for academic research",
        "Copyright 2024 ACME. Academic Research Only", "Copyright (c) 2024 Non-Commercial", "Copyright 2024",
        "Copyright (c) 2024 X (research)", "Copyright 2024 ACME (https://a.org/no-commercial-use)",
        "Copyright 2024 ACME, all copies belong to ACME", "Copyright holders of this text get 5 EUR",
        "Copyright 2024 ACME. Ask First", "Copyright: you may not copy", "(c) you pay",
        "Copyright 2024 Licensed To X"}) {
    EXPECT_FALSE(IsCopyrightLine(line, false)) << line;
    EXPECT_FALSE(IsCopyrightLine(line, true)) << line;
  }
  EXPECT_FALSE(IsCopyrightLine("Copyright (C) Z", true));
  EXPECT_TRUE(IsCopyrightLine("Copyright [yyyy] [name of copyright owner]", true));
  EXPECT_FALSE(IsCopyrightLine("Copyright [yyyy] [name of copyright owner] only", true));
  EXPECT_TRUE(IsLicenseTitle("# MIT License"));
  EXPECT_FALSE(IsLicenseTitle("License ends 2025-01-01; academic research use"));
  EXPECT_FALSE(IsLicenseTitle("Academic research license"));
}

TEST_F(LicenseTest, Acq08ExactTextOfApache) {
  std::ifstream file("/usr/share/common-licenses/Apache-2.0", std::ios::binary);
  if (!file) {
    std::cout << "not-run: license: no /usr/share/common-licenses/Apache-2.0\n";
    GTEST_SKIP() << "the system has no common license texts";
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const LicenseFinding exact = Judge("", {text});
  EXPECT_EQ(exact.spdx, "Apache-2.0");
  EXPECT_EQ(exact.evidence[0].rule, "exact-text");
  std::string filled = text;
  const std::string_view blank = "[yyyy] [name of copyright owner]";
  filled.replace(filled.find(blank), blank.size(), "2026 A Company");
  const LicenseFinding template_text = Judge("", {filled});
  EXPECT_EQ(template_text.spdx, "Apache-2.0");
  EXPECT_EQ(template_text.evidence[0].rule, "template-text");
  EXPECT_EQ(Judge("", {text + "\nCopyright 2024 ACME. Military and academic use are disallowed.\n"}).open,
            ErrorCode::kLicTextUnknown);
  filled.replace(filled.find("perpetual"), 9, "temporary");
  EXPECT_EQ(Judge("", {filled}).open, ErrorCode::kLicTextUnknown);
}

TEST_F(LicenseTest, Acq08A25A26OpenQuestions) {
  const LicenseFinding nothing = Judge("", {});
  EXPECT_EQ(nothing.open, ErrorCode::kLicMissing);
  EXPECT_TRUE(nothing.needs.empty());
  const std::string bare_card = "# A model\n";
  const LicenseFinding silent = Judge(bare_card, {});
  EXPECT_EQ(silent.open, ErrorCode::kLicMissing);
  EXPECT_EQ(silent.needs, std::vector<Hash256>{Sha256Of(AsBytes(bare_card))});
  for (const char* word : {"other", "unknown", "my-license", "gpl", "[mit, isc]", "&x mit"}) {
    const std::string card = "---\nlicense: " + std::string(word) + "\n---\n";
    const LicenseFinding finding = Judge(card, {});
    EXPECT_EQ(finding.open, ErrorCode::kLicOther) << word;
    EXPECT_EQ(finding.needs, std::vector<Hash256>{Sha256Of(AsBytes(card))}) << word;
  }
  const std::string own = "You may look at it.\n";
  const LicenseFinding unknown = Judge("---\nlicense: mit\n---\n", {own});
  EXPECT_EQ(unknown.open, ErrorCode::kLicTextUnknown);
  EXPECT_EQ(unknown.needs, std::vector<Hash256>{Sha256Of(AsBytes(own))});
}

TEST_F(LicenseTest, Acq08CardAndTextDisagree) {
  const LicenseFinding finding = Judge("---\nlicense: apache-2.0\n---\n", {Mit()});
  EXPECT_EQ(finding.open, ErrorCode::kLicConflict);
  ASSERT_EQ(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[0].spdx, "Apache-2.0");
  EXPECT_EQ(finding.evidence[1].spdx, "MIT");
}

TEST(LicenseTablesTest, Acq08MalformedTables) {
  const std::string texts = R"({"schema":"slm.license-texts.v1","texts":[]})";
  EXPECT_EQ(ParseLicenseTables("{}", texts).error().CodeText(), "SCHEMA-VALUE");
  const std::string twice = R"({"schema":"slm.license-cards.v1","licenses":[)"
                            R"({"id":"a","spdx":"A","redistribution":"allowed","attribution":true},)"
                            R"({"id":"a","spdx":"A","redistribution":"allowed","attribution":true}]})";
  EXPECT_EQ(ParseLicenseTables(twice, texts).error().field, "id");
  const std::string orphan = R"({"schema":"slm.license-texts.v1","texts":[{"spdx":"B","sha256":")" +
                             std::string(64, '0') + R"("}]})";
  EXPECT_EQ(ParseLicenseTables(R"({"schema":"slm.license-cards.v1","licenses":[]})", orphan).error().field,
            "spdx");
}

}  // namespace
}  // namespace slm::acquire
