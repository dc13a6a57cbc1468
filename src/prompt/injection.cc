#include "prompt/injection.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/utf8.h"
#include "codec/json.h"

namespace slm::prompt {
namespace {

constexpr std::string_view kClock = "2026-11-30T12:00:00";
constexpr size_t kMaxMarkers = 256;  // of one kind; a vocabulary may add thousands of unused tokens
constexpr std::array<std::string_view, 6> kSyntax = {"{{ 7 * 7 }}", "{% if true %}", "{% endfor %}",
                                                     "{# x #}",     "{%- raw -%}",   "}}"};

// A conversation with a place for each field: @0@, @1@, ... Neutral text is put there, or a marker.
struct Conversation {
  std::string_view text;
  std::vector<std::string_view> fields;
};
const std::vector<Conversation>& Conversations() {
  static const std::vector<Conversation> kAll = {
      {R"({"messages":[{"role":"system","content":"@0@"},{"role":"user","content":"@1@"},)"
       R"({"role":"assistant","content":"@2@"},{"role":"user","content":"@3@"}],"add_generation_prompt":true})",
       {"messages[0].content", "messages[1].content", "messages[2].content", "messages[3].content"}},
      {R"({"messages":[{"role":"user","content":"@0@"},{"role":"assistant","content":"@1@"},)"
       R"({"role":"user","content":"@2@"}],"add_generation_prompt":true})",
       {"messages[0].content", "messages[1].content", "messages[2].content"}},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"@0@"}]}],"add_generation_prompt":true})",
       {"messages[0].content[0].text"}},
      {R"({"messages":[{"role":"user","content":"q","name":"@0@"},{"role":"@1@","content":"q"}]})",
       {"messages[0].name", "messages[1].role"}},
      {R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"q","reasoning_content":"@0@"},)"
       R"({"role":"user","content":"q"}],"add_generation_prompt":true})",
       {"messages[1].reasoning_content"}},
      {R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"@0@",)"
       R"("type":"function","function":{"name":"@1@","arguments":{"a":"@2@"}}}]},{"role":"tool","name":"f",)"
       R"("tool_call_id":"@0@","content":"@3@"}],"tools":[{"type":"function","function":{"name":"@4@",)"
       R"("description":"@5@","parameters":{"type":"object","properties":{"a":{"type":"string",)"
       R"("description":"@6@"}},"required":["a"]}}}],"add_generation_prompt":true})",
       {"messages[1].tool_calls[0].id", "messages[1].tool_calls[0].function.name",
        "messages[1].tool_calls[0].function.arguments.a", "messages[2].content", "tools[0].function.name",
        "tools[0].function.description", "tools[0].function.parameters.properties.a.description"}},
      {R"({"messages":[{"role":"user","content":"q"}],"documents":[{"title":"@0@","text":"@1@"}],)"
       R"("add_generation_prompt":true})",
       {"documents[0].title", "documents[0].text"}},
  };
  return kAll;
}

// The conversation with `value` in one field and neutral text in the others.
std::string Fill(const Conversation& conversation, size_t field, const std::string& value,
                 const std::string& neutral) {
  std::string out;
  const std::string_view text = conversation.text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '@' || i + 2 >= text.size() || text[i + 2] != '@') {
      out.push_back(text[i]);
      continue;
    }
    const size_t at = static_cast<size_t>(text[i + 1] - '0');
    std::string quoted;
    json::AppendQuoted(&quoted, at == field ? value : neutral);
    out += std::string_view(quoted).substr(1, quoted.size() - 2);
    i += 2;
  }
  return out;
}

class Checker {
 public:
  Checker(const chat::Template& source, const tokenizer::Tokenizer* tokenizer,
          const SpecialTokens& special_tokens)
      : source_(source), tokenizer_(tokenizer), special_tokens_(special_tokens) {}

  Result<InjectionReport> Run() {
    CollectMarkers();
    std::set<std::string> seen;
    for (const Conversation& conversation : Conversations()) {
      const auto neutral = Render(Fill(conversation, SIZE_MAX, "", kNeutral));
      if (!neutral) {
        for (const std::string_view field : conversation.fields) {
          if (!seen.contains(std::string(field))) report_.refused.emplace_back(field);
        }
        continue;
      }
      SLM_TRY(CountSeams(*neutral));
      for (size_t i = 0; i < conversation.fields.size(); ++i) {
        SLM_TRY(CheckField(conversation, i));
        seen.insert(std::string(conversation.fields[i]));
      }
    }
    std::erase_if(report_.refused, [&seen](const std::string& field) { return seen.contains(field); });
    report_.fields.assign(seen.begin(), seen.end());
    return std::move(report_);
  }

 private:
  static constexpr const char* kNeutral = "q";

  void CollectMarkers() {
    std::set<std::string> known;
    const auto add = [&](const std::string& text, MarkerKind kind) {
      if (!text.empty() && known.insert(text).second) report_.markers.push_back({text, kind});
    };
    for (const auto& [name, text] : special_tokens_) add(text, MarkerKind::kSpecialToken);
    if (tokenizer_ != nullptr) {
      size_t n = 0;
      for (const std::string& text : tokenizer_->added_token_texts()) {
        // First those that the template writes: a vocabulary may hold thousands that nothing uses.
        if (IsWritten(text) || n++ < kMaxMarkers) add(text, MarkerKind::kSpecialToken);
      }
    }
    for (const chat::ContentPredicate& predicate : source_.program().content_predicates)
      add(predicate.literal, MarkerKind::kBranch);
    size_t n = 0;
    for (const std::string& text : source_.program().emits) {
      for (const std::string& marker : MarkersIn(text)) {
        if (n++ < kMaxMarkers) add(marker, MarkerKind::kTemplateText);
      }
    }
    for (const std::string_view text : kSyntax) add(std::string(text), MarkerKind::kSyntax);
  }
  bool IsWritten(const std::string& text) const {
    const auto& emits = source_.program().emits;
    return std::any_of(emits.begin(), emits.end(),
                       [&](const std::string& literal) { return literal.find(text) != std::string::npos; });
  }
  // Pieces in brackets that templates use for roles and blocks: <|im_start|>, <think>, [INST].
  static std::vector<std::string> MarkersIn(const std::string& text) {
    std::vector<std::string> found;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '<' && text[i] != '[') continue;
      const size_t end = text.find_first_of(text[i] == '<' ? "> \n<" : "] \n[", i + 1);
      if (end == std::string::npos || end == i + 1) continue;
      if (text[end] == (text[i] == '<' ? '>' : ']')) found.push_back(text.substr(i, end + 1 - i));
    }
    return found;
  }

  Result<chat::Rendered> Render(const std::string& context) const {
    SLM_ASSIGN(const json::Document document, json::Parse(context));
    return source_.Render(document.root(), {.special_tokens = special_tokens_, .clock = std::string(kClock)});
  }

  // What the template wrote, with a mark for each piece of content.
  static std::string Structure(const chat::Rendered& rendered) {
    std::string structure;
    for (const chat::Span& span : rendered.Spans()) {
      if (IsTemplateOwner(span.owner)) {
        structure += rendered.text.substr(span.begin, span.end - span.begin);
      } else {
        structure += '\0' + span.owner + '\0';
      }
    }
    return structure;
  }
  static std::string Content(const chat::Rendered& rendered) {
    std::string content;
    for (const chat::Span& span : rendered.Spans()) {
      if (IsTemplateOwner(span.owner)) continue;
      content += rendered.text.substr(span.begin, span.end - span.begin) + '\n';
    }
    return content;
  }

  Status CountSeams(const chat::Rendered& neutral) {
    if (tokenizer_ == nullptr) return {};
    SLM_ASSIGN(const DataPrompt prompt, EncodeAsData(*tokenizer_, neutral));
    report_.n_seams += prompt.parts.empty() ? 0 : prompt.parts.size() - 1;
    report_.n_changed_seams += prompt.changed_seams.size();
    return {};
  }

  static std::vector<std::vector<uint32_t>> TemplateIds(const DataPrompt& prompt) {
    std::vector<std::vector<uint32_t>> ids;
    for (const Part& part : prompt.parts) {
      if (!part.is_template) continue;
      const auto first = prompt.ids.begin() + static_cast<ptrdiff_t>(part.first);
      ids.emplace_back(first, first + static_cast<ptrdiff_t>(part.count));
    }
    return ids;
  }

  Status CheckField(const Conversation& conversation, size_t field) {
    const std::string name(conversation.fields[field]);
    for (const Marker& marker : report_.markers) {
      ++report_.n_checks;
      Injection injection{name, marker};
      for (const bool before : {false, true}) {
        for (const bool after : {false, true}) {
          const std::string left = before ? "q " : "";
          const std::string right = after ? " q" : "";
          // Neutral text of the same shape: as many words, no marker.
          SLM_TRY(Compare(conversation, field, left + marker.text + right, left + "q" + right, &injection));
        }
      }
      if (injection.forges_tokens) ++report_.n_forged_as_reference;
      if (!injection.changes_template && !injection.forges_tokens && !injection.copies_text) continue;
      if (std::find(report_.injections.begin(), report_.injections.end(), injection) ==
          report_.injections.end()) {
        report_.injections.push_back(std::move(injection));
      }
    }
    return {};
  }

  Status Compare(const Conversation& conversation, size_t field, const std::string& value,
                 const std::string& neutral_value, Injection* injection) {
    const std::string key =
        std::string(conversation.text) + '\0' + std::to_string(field) + '\0' + neutral_value;
    auto known = neutral_.find(key);
    if (known == neutral_.end()) {
      Neutral fresh;
      const auto rendered = Render(Fill(conversation, field, neutral_value, kNeutral));
      if (rendered) {
        fresh.structure = Structure(*rendered);
        if (tokenizer_ != nullptr) {
          SLM_ASSIGN(const DataPrompt prompt, EncodeAsData(*tokenizer_, *rendered));
          fresh.template_ids = TemplateIds(prompt);
        }
      }
      known = neutral_.emplace(key, std::move(fresh)).first;
    }
    const Neutral& neutral = known->second;
    const auto rendered = Render(Fill(conversation, field, value, kNeutral));
    if (rendered.has_value() != neutral.structure.has_value()) {
      injection->changes_template = true;
      return {};
    }
    if (!rendered) return {};
    const bool same = Structure(*rendered) == *neutral.structure;
    injection->changes_template = injection->changes_template || !same;
    if (injection->marker.kind == MarkerKind::kTemplateText &&
        Content(*rendered).find(injection->marker.text) != std::string::npos) {
      injection->copies_text = true;
    }
    if (tokenizer_ == nullptr) return {};
    SLM_ASSIGN(const DataPrompt prompt, EncodeAsData(*tokenizer_, *rendered));
    injection->forges_tokens = injection->forges_tokens || prompt.n_markers_in_content > 0;
    if (same && TemplateIds(prompt) != neutral.template_ids) ++report_.n_forged_as_data;
    return {};
  }

  struct Neutral {
    std::optional<std::string> structure;  // nothing: it raises
    std::vector<std::vector<uint32_t>> template_ids;
  };
  const chat::Template& source_;
  const tokenizer::Tokenizer* tokenizer_;
  const SpecialTokens& special_tokens_;
  std::map<std::string, Neutral> neutral_;
  InjectionReport report_;
};

}  // namespace

const char* MarkerKindName(MarkerKind kind) {
  switch (kind) {
    case MarkerKind::kSpecialToken:
      return "special token";
    case MarkerKind::kTemplateText:
      return "text of the template";
    case MarkerKind::kSyntax:
      return "template syntax";
    case MarkerKind::kBranch:
      return "literal of a branch";
  }
  return "";
}

Result<InjectionReport> CheckInjection(const chat::Template& source, const tokenizer::Tokenizer* tokenizer,
                                       const SpecialTokens& special_tokens) {
  return Checker(source, tokenizer, special_tokens).Run();
}

std::string InjectionJson(const InjectionReport& report) {
  json::Writer out;
  out.BeginObject().Key("fields").BeginArray();
  for (const std::string& field : report.fields) out.String(field);
  out.EndArray().Key("refused_fields").BeginArray();
  for (const std::string& field : report.refused) out.String(field);
  out.EndArray().Key("markers").Uint(report.markers.size()).Key("checks").Uint(report.n_checks);
  out.Key("injections").BeginArray();
  for (const Injection& injection : report.injections) {
    out.BeginObject().Key("field").String(injection.field).Key("marker").String(injection.marker.text);
    out.Key("kind").String(MarkerKindName(injection.marker.kind));
    out.Key("changes_template").Bool(injection.changes_template);
    out.Key("forges_tokens").Bool(injection.forges_tokens);
    out.Key("copies_text").Bool(injection.copies_text).EndObject();
  }
  out.EndArray().Key("forged_as_reference").Uint(report.n_forged_as_reference);
  out.Key("forged_as_data").Uint(report.n_forged_as_data);
  out.Key("seams").Uint(report.n_seams).Key("changed_seams").Uint(report.n_changed_seams).EndObject();
  return out.Take();
}

std::string InjectionText(const InjectionReport& report) {
  std::string text;
  for (const Injection& injection : report.injections) {
    text += injection.field + "  " + MarkerKindName(injection.marker.kind) + " |" +
            EscapeForDisplay(injection.marker.text) +
            "|:" + (injection.changes_template ? " changes what the template writes" : "") +
            (injection.forges_tokens ? " becomes a token" : "") +
            (injection.copies_text ? " stands in the prompt as text" : "") + "\n";
  }
  text += std::to_string(report.n_checks) + " pairs of field and marker, " +
          std::to_string(report.injections.size()) + " change something in the reference itself; " +
          std::to_string(report.n_forged_as_reference) + " forge a token there, " +
          std::to_string(report.n_forged_as_data) + " with content kept data\n";
  text += std::to_string(report.n_changed_seams) + " of " + std::to_string(report.n_seams) +
          " seams between template and content give other ids than the reference\n";
  if (!report.refused.empty()) {
    text += "fields of conversations that the template refuses:";
    for (const std::string& field : report.refused) text += " " + field;
    text += "\n";
  }
  return text;
}

}  // namespace slm::prompt
