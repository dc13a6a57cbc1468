// The two license tables: profiles/licenses/cards-v1.json and texts-v1.json.
#include "acquire/license.h"
#include "codec/json.h"
#include "codec/sha256.h"

namespace slm::acquire {
namespace {

std::unexpected<Error> Bad(json::Value at, std::string_view field, std::string message) {
  return Fail(MakeError(ErrorCode::kSchemaValue, std::move(message)).At(at.byte_offset()).Field(field));
}

Result<std::string> Text(json::Value row, std::string_view key) {
  const auto value = row.Find(key);
  if (!value || !value->is_string()) return Bad(row, key, "a row needs the text " + std::string(key));
  return std::string(value->string());
}

// The list under `key` of a file with the given schema.
Result<json::Value> Rows(json::Value root, std::string_view schema, std::string_view key) {
  if (!root.is_object()) return Bad(root, "", "a table is a JSON object");
  SLM_ASSIGN(const std::string found, Text(root, "schema"));
  if (found != schema) return Bad(root, "schema", "the schema must be " + std::string(schema));
  const auto rows = root.Find(key);
  if (!rows || !rows->is_array()) return Bad(root, key, "the list of rows is absent");
  return *rows;
}

Status ReadCard(json::Value row, LicenseTables* tables) {
  LicenseFacts facts;
  SLM_ASSIGN(facts.id, Text(row, "id"));
  SLM_ASSIGN(facts.spdx, Text(row, "spdx"));
  SLM_ASSIGN(facts.redistribution, Text(row, "redistribution"));
  const auto attribution = row.Find("attribution");
  if (!attribution || !attribution->is_bool())
    return Bad(row, "attribution", "a row needs the flag attribution");
  facts.attribution = attribution->boolean();
  if (row.Find("duties")) {
    SLM_ASSIGN(facts.duties, Text(row, "duties"));
  }
  if (facts.redistribution != "allowed" && facts.redistribution != "conditional" &&
      facts.redistribution != "forbidden") {
    return Bad(row, "redistribution", "redistribution is allowed, conditional or forbidden");
  }
  if (tables->FindCard(facts.id) != nullptr) return Bad(row, "id", "the identifier stands twice");
  tables->cards.push_back(std::move(facts));
  return {};
}

Status ReadText(json::Value row, LicenseTables* tables) {
  LicenseText text;
  SLM_ASSIGN(text.spdx, Text(row, "spdx"));
  text.is_template = row.Find("normalized_sha256").has_value();
  SLM_ASSIGN(const std::string hash, Text(row, text.is_template ? "normalized_sha256" : "sha256"));
  if (!HashFromHex(hash, &text.sha256))
    return Bad(row, "sha256", "a hash has 64 lower-case hexadecimal digits");
  if (tables->FindSpdx(text.spdx) == nullptr) return Bad(row, "spdx", "no card row names this license");
  tables->texts.push_back(std::move(text));
  return {};
}

}  // namespace

Result<LicenseTables> ParseLicenseTables(std::string_view cards_json, std::string_view texts_json) {
  LicenseTables tables;
  tables.cards_hash = Sha256Of(AsBytes(cards_json));
  tables.texts_hash = Sha256Of(AsBytes(texts_json));
  SLM_ASSIGN(const json::Document cards, json::Parse(std::string(cards_json)));
  SLM_ASSIGN(const json::Value card_rows, Rows(cards.root(), "slm.license-cards.v1", "licenses"));
  for (json::Value row : card_rows.children()) SLM_TRY(ReadCard(row, &tables));
  SLM_ASSIGN(const json::Document texts, json::Parse(std::string(texts_json)));
  SLM_ASSIGN(const json::Value text_rows, Rows(texts.root(), "slm.license-texts.v1", "texts"));
  for (json::Value row : text_rows.children()) SLM_TRY(ReadText(row, &tables));
  return tables;
}

}  // namespace slm::acquire
