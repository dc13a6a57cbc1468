#include "acquire/acquisition.h"

#include <algorithm>
#include <map>

#include "acquire/acquisition_nodes.h"
#include "acquire/conflict.h"
#include "acquire/decision.h"
#include "acquire/embedded.h"
#include "acquire/file_keys.h"
#include "acquire/file_stream.h"
#include "acquire/license.h"
#include "acquire/profile.h"
#include "acquire/source_tree.h"
#include "acquire/weights_set.h"
#include "base/escape.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "model/family_profile.h"

namespace slm::acquire {
namespace {

constexpr size_t kMaxLabelBytes = 256;

Status CheckLabel(std::string_view label, std::string_view field) {
  const bool is_good =
      !label.empty() && label.size() <= kMaxLabelBytes && !FindUtf8Fault(label) && EscapeLine(label) == label;
  if (is_good) return {};
  return Fail(MakeError(ErrorCode::kUsage,
                        std::string(field) +
                            " has 1 to 256 bytes of UTF-8 without control characters or invisible ones")
                  .Field(field));
}

// The declarations that a statement can choose.
std::string RefList(const Conflict& conflict) {
  std::string text;
  for (const Declaration& declaration : conflict.declarations) {
    if (!declaration.can_hold) continue;
    text += (text.empty() ? "" : ", ") + declaration.Ref();
  }
  return text;
}

// One acquisition from a directory, step by step; or from the store alone, which writes nothing (RunAgain).
// Lives for one call.
class Transaction {
 public:
  Transaction(Store& store, const DirectoryRequest& request)
      : store_(store), sink_(&store), request_(request) {}
  Transaction(const Store& store, const DirectoryRequest& request) : store_(store), request_(request) {}

  Result<Acquisition> Run() {
    SLM_TRY(CheckLabel(request_.name, "name"));
    SLM_TRY(CheckLabel(request_.revision, "revision"));
    result_.name = request_.name;
    result_.revision = request_.revision;
    SLM_ASSIGN(profile_, LoadProfile(request_.profile_path));
    SLM_ASSIGN(tables_, ParseLicenseTables(EmbeddedLicenseCards(), EmbeddedLicenseTexts()));
    SLM_TRY(LoadDecisions());
    SLM_TRY(StreamTree());
    SLM_TRY(ParseFiles());
    SLM_TRY(SettleContents());
    SLM_TRY(ClassifyKeys());
    SLM_TRY(SettleLicense());
    SLM_TRY(CheckDecisionsUsed());
    return Publish();
  }

  // What the files and statements of an acquisition give by the rules of this program. On an error,
  // `part` says where it arose: "source", "license" or "conflicts".
  Result<Node> RunAgain(const Hash256& id, std::string* part) {
    *part = "source";
    SLM_ASSIGN(const Node recorded, store_.GetNode(id));
    SLM_ASSIGN(const Acquisition old, LoadAcquisition(store_, id));
    SLM_TRY(CheckLabel(old.name, "name"));
    SLM_TRY(CheckLabel(old.revision, "revision"));
    result_.name = old.name;
    result_.revision = old.revision;
    SLM_TRY(LoadProfileOf(recorded));
    SLM_ASSIGN(tables_, ParseLicenseTables(EmbeddedLicenseCards(), EmbeddedLicenseTexts()));
    for (const SourceFile& file : old.files) {
      SLM_ASSIGN(const std::string kind, profile_.KindOf(file.path));
      SLM_ASSIGN(StreamedFile streamed,
                 StreamStored(store_, file.path, kind, file.blob, file.size, profile_));
      files_.push_back(std::move(streamed));
    }
    ListFiles();
    SLM_TRY(ParseFiles());
    *part = "conflicts";
    for (const Hash256& decision : old.decisions) SLM_TRY(LoadStatementOf(decision));
    SLM_TRY(SettleContents());
    SLM_TRY(ClassifyKeys());
    *part = "license";
    SLM_TRY(CheckTablesOf(old.license));
    SLM_TRY(SettleLicense());
    *part = "conflicts";
    SLM_TRY(CheckDecisionsUsed());
    SLM_ASSIGN(const Acquisition again, Publish());
    return AcquisitionNode(again, profile_);
  }

 private:
  struct Statement {
    Decision decision;
    bool is_used = false;
    std::vector<Hash256> conflicts;  // that it settled
  };

  // A profile under the name of the one that the program carries must be that one.
  Status LoadProfileOf(const Node& acquisition) {
    cbor::Reader reader(acquisition.metadata);
    SLM_ASSIGN(const Hash256 hash, reader.Hash("profile"));
    SLM_ASSIGN(const Profile carried, LoadProfile(""));
    SLM_ASSIGN(const Bytes text, store_.ReadBlob(hash, kMaxProfileBytes));
    SLM_ASSIGN(profile_, ParseProfile(text, "the acquisition's profile"));
    if (profile_.name != carried.name || profile_.hash == carried.hash) return {};
    return Fail(
        MakeError(ErrorCode::kGraphSchema, "the acquisition's profile is not the one that has this name here")
            .Field("profile"));
  }

  // Other tables than the program's own could call any license by any name.
  Status CheckTablesOf(const Hash256& license) const {
    SLM_ASSIGN(const Node node, store_.GetNode(license));
    cbor::Reader reader(node.metadata);
    SLM_ASSIGN(const Hash256 cards, reader.Hash("cards_table"));
    SLM_ASSIGN(const Hash256 texts, reader.Hash("texts_table"));
    if (cards == tables_.cards_hash && texts == tables_.texts_hash) return {};
    return Fail(MakeError(ErrorCode::kUnsupported,
                          "the license was judged by tables that this program does not carry")
                    .Field("cards_table"));
  }

  Status LoadStatementOf(const Hash256& decision_node) {
    SLM_ASSIGN(const Node node, store_.GetNode(decision_node));
    cbor::Reader reader(node.metadata);
    SLM_ASSIGN(const Hash256 statement, reader.Hash("statement"));
    SLM_ASSIGN(const Bytes text, store_.ReadBlob(statement, kMaxStatementBytes));
    SLM_ASSIGN(Decision decision, ParseDecision(text, "statement " + ToHex(statement).substr(0, 12)));
    if (!IsAcquisitionDecision(decision.kind)) {
      return Fail(MakeError(ErrorCode::kDecisionBad,
                            "a statement of kind " + decision.kind + " decides nothing in an acquisition")
                      .Field("kind"));
    }
    statements_.push_back({std::move(decision), false, {}});
    return {};
  }

  // The store's operations, or the identity alone where nothing is written.
  Result<Hash256> PutNode(const Node& node) {
    if (sink_ == nullptr) return NodeId(node);
    return sink_->PutNode(node);
  }
  Status PutBlob(ByteSpan bytes) {
    if (sink_ == nullptr) return {};
    SLM_TRY(sink_->PutBlob(bytes));
    return {};
  }
  Status AppendLog(std::string_view kind, std::span<const Hash256> ids) {
    return sink_ == nullptr ? Status{} : sink_->AppendLog(kind, ids);
  }

  Status LoadDecisions() {
    const auto load = [this](const std::vector<std::string>& paths, bool accepts_conflict) -> Status {
      for (const std::string& path : paths) {
        SLM_ASSIGN(Decision decision, LoadDecision(path));
        if (!IsAcquisitionDecision(decision.kind) ||
            (decision.kind == "accept-conflict") != accepts_conflict) {
          return Fail(MakeError(ErrorCode::kDecisionBad,
                                "a statement of kind " + decision.kind +
                                    " decides nothing here (license and config-field: --decision, "
                                    "accept-conflict: --accept-conflict; other kinds: slm promote)")
                          .In(decision.path)
                          .Field("kind"));
        }
        statements_.push_back({std::move(decision), false, {}});
      }
      return {};
    };
    SLM_TRY(load(request_.decision_paths, false));
    return load(request_.accept_conflict_paths, true);
  }

  Status StreamTree() {
    SLM_ASSIGN(const FileDescriptor root, OpenTree(request_.directory));
    const auto own_store = FolderIdentityOf(request_.store_directory);
    SLM_ASSIGN(const SourceTree tree, ListTree(root, profile_, own_store));
    for (const std::string& required : profile_.required) {
      const bool is_there = std::any_of(tree.entries.begin(), tree.entries.end(),
                                        [&](const TreeEntry& entry) { return entry.path == required; });
      if (is_there) continue;
      return Fail(
          MakeError(ErrorCode::kAcqMissing, "the source has no " + required).In(required).Field(required));
    }
    uint64_t done = 0;
    for (const TreeEntry& entry : tree.entries) {
      const auto on_bytes = [&](uint64_t n) {
        done += n;
        if (request_.on_progress) request_.on_progress({entry.path, done, tree.total_bytes});
      };
      SLM_ASSIGN(StreamedFile file, StreamFile(*sink_, root, entry, profile_, on_bytes));
      files_.push_back(std::move(file));
    }
    // The whole tree must still be what was listed, or the files may stem from two states of it.
    SLM_ASSIGN(const SourceTree after, ListTree(root, profile_, own_store));
    if (after.entries != tree.entries) {
      return Fail(
          MakeError(ErrorCode::kAcqChanged,
                    "the directory changed during the transaction; run it again when nothing writes to it")
              .In(request_.directory));
    }
    result_.ignored = tree.ignored;
    ListFiles();
    return {};
  }

  void ListFiles() {
    for (const StreamedFile& file : files_) {
      const Hash256 node = NodeId(SourceFileNode(file));
      result_.files.push_back({file.path, file.kind, file.size, file.blob, node});
      if (!file.header) continue;
      for (const std::string& flag : file.header->flags) result_.flags.push_back(file.path + ": " + flag);
      FlagNonfinite(file);
    }
  }

  void FlagNonfinite(const StreamedFile& file) {
    for (size_t i = 0; i < file.census.size(); ++i) {
      const safetensors::Census& census = file.census[i];
      if (!census.first_nonfinite) continue;
      result_.flags.push_back(file.path + ": NONFINITE: tensor " +
                              EscapeForDisplay(file.header->tensors[i].name) + " holds " +
                              std::to_string(census.n_nan) + " NaN and " + std::to_string(census.n_inf) +
                              " infinities, the first at index " + std::to_string(*census.first_nonfinite));
      return;  // the source-file node lists all
    }
  }

  [[nodiscard]] const StreamedFile* File(std::string_view path) const {
    for (const StreamedFile& file : files_) {
      if (file.path == path) return &file;
    }
    return nullptr;
  }

  // Parses one JSON file that must be an object; leaves `root` empty where it is absent.
  Status Parse(std::string_view path, std::optional<json::Value>* root) {
    const StreamedFile* file = File(path);
    if (file == nullptr) return {};
    json::Limits limits;
    limits.max_bytes = profile_.limits.max_text_bytes;
    auto document = json::Parse(file->text, limits);
    if (!document) return Fail(std::move(document).error().In(path));
    if (!document->root().is_object()) {
      return Fail(MakeError(ErrorCode::kJsonType, "the file must hold a JSON object")
                      .At(document->root().byte_offset())
                      .In(path));
    }
    *root = document->root();
    documents_.push_back(*std::move(document));
    return {};
  }

  Status ParseFiles() {
    SLM_TRY(Parse("config.json", &view_.config));
    SLM_TRY(Parse("generation_config.json", &view_.generation_config));
    SLM_TRY(Parse("tokenizer_config.json", &view_.tokenizer_config));
    SLM_TRY(Parse("special_tokens_map.json", &view_.special_tokens_map));
    SLM_TRY(Parse("tokenizer.json", &view_.tokenizer));
    SLM_TRY(Parse("added_tokens.json", &view_.added_tokens));
    SLM_TRY(Parse("chat_template.json", &view_.chat_template_json));
    SLM_TRY(Parse("processor_config.json", &view_.processor_config));
    SLM_TRY(Parse("preprocessor_config.json", &view_.preprocessor_config));
    view_.model_card = File("README.md");
    if (!view_.config)
      return Fail(MakeError(ErrorCode::kAcqMissing, "the source has no config.json").In("config.json"));
    for (const StreamedFile& file : files_) {
      if (file.kind != "chat-template" && file.kind != "named-template") continue;
      if (const auto fault = FindUtf8Fault(file.text)) {
        return Fail(MakeError(ErrorCode::kUtf8, "a chat template is not well-formed UTF-8")
                        .At(fault->byte_offset)
                        .In(file.path));
      }
      view_.templates.push_back(&file);
    }
    return {};
  }

  Hash256 FileNode(const std::string& path) const { return result_.Find(path)->node; }
  Node NodeOf(const Conflict& conflict) const {
    return ConflictNode(conflict, [this](const std::string& path) { return FileNode(path); });
  }

  // The weights first, since what the other rules say depends on which files count.
  Status SettleContents() {
    bool use_single = true;
    if (const auto conflict = FindWeightsConflict(files_)) {
      SLM_TRY(Settle({*conflict}));
      use_single = result_.choices.back().ref == kSingleWeights;
    }
    SLM_ASSIGN(WeightsSet weights, SelectWeights(files_, use_single, profile_, &result_.flags));
    if (weights.problem) return Settle({*weights.problem});
    view_.weights = weights.files;
    for (const StreamedFile* file : weights.files) result_.weights.push_back(file->path);
    std::vector<Conflict> conflicts = FindConflicts(view_, profile_, &result_.flags);
    SLM_ASSIGN(std::optional<Conflict> tied, FindTiedConflict(store_, view_, profile_, &result_.flags));
    if (tied) conflicts.push_back(*std::move(tied));
    return Settle(conflicts);
  }

  // Records what statements settle; the first conflict that none does ends the transaction, with a
  // receipt of every open one in the store.
  Status Settle(const std::vector<Conflict>& conflicts) {
    std::vector<const Conflict*> open;
    for (const Conflict& conflict : conflicts) {
      const Node node = NodeOf(conflict);
      const Hash256 id = NodeId(node);
      Statement* statement = conflict.acceptable ? FindStatement("accept-conflict", id) : nullptr;
      if (statement == nullptr) {
        open.push_back(&conflict);
        continue;
      }
      SLM_TRY(CheckChoice(conflict, statement->decision));
      statement->is_used = true;
      statement->conflicts.push_back(id);
      result_.choices.push_back(
          {std::string(Info(conflict.code).name), conflict.field, statement->decision.ChoiceText(), id});
      result_.conflicts.push_back(id);
      conflict_nodes_.push_back(node);
    }
    if (open.empty()) return {};
    SLM_TRY(WriteReceipts(open));
    return Fail(Refusal(*open.front(), open.size()));
  }

  static Status CheckChoice(const Conflict& conflict, const Decision& decision) {
    const std::string choice = decision.ChoiceText();
    for (const Declaration& declaration : conflict.declarations) {
      if (declaration.can_hold && declaration.Ref() == choice) return {};
    }
    return Fail(MakeError(ErrorCode::kDecisionBad,
                          "choice must name the declaration that holds, one of: " + RefList(conflict))
                    .In(decision.path)
                    .Field("choice"));
  }

  Error Refusal(const Conflict& conflict, size_t n_open) const {
    std::string message = conflict.message;
    for (const Declaration& declaration : conflict.declarations) {
      message += "; " + declaration.Ref() + " at byte " + std::to_string(declaration.byte_offset);
      if (!declaration.value.empty()) message += " says " + ShortenedText(declaration.value);
    }
    message += ". Conflict " + ToHex(NodeId(NodeOf(conflict)));
    if (conflict.acceptable) {
      message +=
          ": decide with --accept-conflict FILE, a statement whose applies_to holds this id and whose choice "
          "is one of: " +
          RefList(conflict);
    } else {
      message += " is recorded; no statement can settle it" +
                 (conflict.why_not.empty() ? "" : " (" + conflict.why_not + ")") +
                 ", the source must be corrected";
    }
    if (n_open > 1) message += ". " + std::to_string(n_open - 1) + " more conflicts are recorded";
    return MakeError(conflict.code, std::move(message))
        .At(conflict.declarations.front().byte_offset)
        .In(conflict.declarations.front().file)
        .Field(conflict.field);
  }

  // Conflict receipts and the source-file nodes under them, in one log record.
  Status WriteReceipts(const std::vector<const Conflict*>& open) {
    std::vector<Hash256> ids;
    for (const Conflict* conflict : open) {
      const Node node = NodeOf(*conflict);
      if (store_.HasNode(NodeId(node))) continue;
      for (const Declaration& declaration : conflict->declarations) {
        SLM_TRY(PutNode(SourceFileNode(*File(declaration.file))));
      }
      SLM_ASSIGN(const Hash256 id, PutNode(node));
      ids.push_back(id);
    }
    if (ids.empty()) return {};
    return AppendLog("conflict", ids);
  }

  Statement* FindStatement(std::string_view kind, const Hash256& hash) {
    for (Statement& statement : statements_) {
      if (statement.decision.kind == kind && statement.decision.AppliesTo(hash)) return &statement;
    }
    return nullptr;
  }

  // Keys that conversion would stop at stop here too (ACQ-12, CFG-02). A family without a profile is
  // refused by conversion as a whole.
  Status ClassifyKeys() {
    SLM_TRY(ReadKeyStatements());
    const FamilyProfile* family = Family();
    Status status;
    if (family != nullptr) {
      ConfigPolicy policy;
      policy.documentary_keys = result_.documentary_keys;
      status = CheckLlamaKeys(*view_.config, view_.generation_config ? &*view_.generation_config : nullptr,
                              *family, policy);
    }
    if (status.has_value())
      status = CheckFileKeys(view_, profile_.keys, result_.documentary_keys, &result_.ignored_metadata);
    if (status.has_value()) return {};
    Error error = std::move(status).error();
    const SourceFile* file = result_.Find(error.file);
    // What generate() alone reads changes no logit, so a person may leave the publisher's value out.
    const bool of_generation = error.code == ErrorCode::kCfgValue && IsOpenKey(error.file, error.field);
    if ((error.code == ErrorCode::kCfgUnclassified || of_generation) && file != nullptr) {
      error.message += ": a statement of kind config-field whose choice is \"" + error.file + ":" +
                       error.field + "\" and whose applies_to holds " + ToHex(file->blob);
    }
    return Fail(std::move(error));
  }

  // Null for a model_type that no profile is for.
  [[nodiscard]] const FamilyProfile* Family() const {
    const FamilyProfile& family = FamilyProfile::Llama();
    const auto type = view_.config->Find("model_type");
    const auto& types = family.model_types();
    const bool is_known =
        type && type->is_string() && std::find(types.begin(), types.end(), type->string()) != types.end();
    return is_known ? &family : nullptr;
  }

  // What statements call documentary: "config.json:key".
  Status ReadKeyStatements() {
    for (Statement& statement : statements_) {
      if (statement.decision.kind != "config-field") continue;
      const std::string key = statement.decision.ChoiceText();
      const size_t colon = key.find(':');
      const SourceFile* file = colon == std::string::npos ? nullptr : result_.Find(key.substr(0, colon));
      if (file == nullptr || !statement.decision.AppliesTo(file->blob)) {
        return Fail(
            MakeError(ErrorCode::kDecisionBad,
                      "choice must name a key as \"config.json:key\", and applies_to that file's SHA-256")
                .In(statement.decision.path)
                .Field("applies_to"));
      }
      statement.is_used = IsOpenKey(key.substr(0, colon), key.substr(colon + 1));
      result_.documentary_keys.push_back({key, ToHex(statement.decision.statement_hash)});
    }
    return {};
  }

  // A key that the file holds and no list names, or one of generate() that may be left out.
  [[nodiscard]] bool IsOpenKey(std::string_view file, std::string_view key) const {
    const FamilyProfile* family = Family();
    const auto is_open = [&](const std::optional<json::Value>& root, const KeyRule* rule) {
      return root && root->is_object() && root->Find(key) && rule == nullptr;
    };
    if (family != nullptr && (file == "config.json" || file == "generation_config.json")) {
      const bool is_config = file == "config.json";
      const std::optional<json::Value>& root = is_config ? view_.config : view_.generation_config;
      const KeyRule* rule = is_config ? family->ConfigKey(key) : family->GenerationKey(key);
      if (rule == nullptr || !root || !root->is_object()) return is_open(root, rule);
      const std::optional<json::Value> value = root->Find(key);
      return value && family->MayBeLeftOut(*rule, *value);
    }
    for (const ListedFile& listed : ListedFiles(view_)) {
      if (listed.path == file) return is_open(listed.root, profile_.keys.Find(file, key));
    }
    return false;
  }

  Status SettleLicense() {
    const StreamedFile* card = File("README.md");
    std::vector<LicenseFile> texts;
    for (const StreamedFile& file : files_) {
      if (file.kind == "license-text") texts.push_back({file.path, file.blob, file.text});
    }
    LicenseFinding finding =
        JudgeLicense(tables_, card == nullptr ? "" : card->path, card == nullptr ? Hash256{} : card->blob,
                     card == nullptr ? std::string_view() : card->text, texts);
    license_.spdx = finding.spdx;
    license_.settled_by = "lists";
    if (finding.open == ErrorCode::kLicConflict) {
      SLM_TRY(SettleLicenseConflict(finding));
    } else if (finding.open) {
      if (finding.needs.empty()) finding.needs.push_back(NodeId(SourceTreeNode(result_.files)));
      SLM_TRY(DecideLicense(finding));
    }
    const LicenseFacts* facts = tables_.FindSpdx(license_.spdx);
    license_.redistribution = facts == nullptr ? "by-decision" : facts->redistribution;
    license_.attribution = facts == nullptr || facts->attribution;
    license_.duties = facts == nullptr ? "" : facts->duties;
    for (const LicenseEvidence& item : finding.evidence) {
      const Edge edge{"evidence", FileNode(item.path)};
      if (std::find(license_.edges.begin(), license_.edges.end(), edge) == license_.edges.end()) {
        license_.edges.push_back(edge);
      }
    }
    license_.evidence = std::move(finding.evidence);
    result_.spdx = license_.spdx;
    result_.redistribution = license_.redistribution;
    return {};
  }

  Status SettleLicenseConflict(const LicenseFinding& finding) {
    Conflict conflict{ErrorCode::kLicConflict, "license", {}, finding.message, true};
    std::map<std::string, std::string> spdx_of;
    for (const LicenseEvidence& item : finding.evidence) {
      const bool is_card = item.rule == "card";
      conflict.declarations.push_back({item.path, is_card ? "license" : "", item.byte_offset,
                                       is_card ? ShortenedText(item.value) : item.spdx});
      spdx_of[conflict.declarations.back().Ref()] = item.spdx;
    }
    SLM_TRY(Settle({conflict}));
    const ConflictChoice& choice = result_.choices.back();
    license_.spdx = spdx_of[choice.ref];
    license_.settled_by = "accepted-conflict";
    license_.edges.push_back({"conflict", choice.conflict});
    return {};
  }

  // Every hash in `needs` must stand in a license statement; all of them choose the same license.
  Status DecideLicense(const LicenseFinding& finding) {
    std::string missing;
    for (const Hash256& need : finding.needs) {
      Statement* statement = FindStatement("license", need);
      if (statement == nullptr) {
        missing += (missing.empty() ? "" : ", ") + ToHex(need);
        continue;
      }
      const std::string choice = statement->decision.ChoiceText();
      SLM_TRY(CheckSpdx(choice, statement->decision.path));
      if (!license_.spdx.empty() && license_.spdx != choice) {
        return Fail(MakeError(ErrorCode::kDecisionBad, "two statements choose different licenses")
                        .In(statement->decision.path)
                        .Field("choice"));
      }
      license_.spdx = choice;
      statement->is_used = true;
      SLM_TRY(CheckAgainstKnown(finding, *statement));
    }
    license_.settled_by = "decision";
    if (missing.empty()) return {};
    const LicenseEvidence* where = finding.evidence.empty() ? nullptr : &finding.evidence.front();
    for (const LicenseEvidence& item : finding.evidence) {
      if (finding.open == ErrorCode::kLicTextUnknown && item.rule == "unknown-text") where = &item;
    }
    Error error =
        MakeError(*finding.open, finding.message +
                                     ": a person decides with --decision FILE, a statement of kind license "
                                     "whose choice is the SPDX identifier and whose applies_to holds " +
                                     missing);
    error.field = "license";
    error.file = where == nullptr ? "README.md" : where->path;
    if (where != nullptr) error.byte_offset = where->byte_offset;
    return Fail(std::move(error));
  }

  // Evidence that the lists do know must agree, unless the statement names that file's hash as well.
  static Status CheckAgainstKnown(const LicenseFinding& finding, const Statement& statement) {
    const std::string choice = statement.decision.ChoiceText();
    for (const LicenseEvidence& item : finding.evidence) {
      if (item.spdx.empty() || item.spdx == choice || statement.decision.AppliesTo(item.blob)) continue;
      return Fail(MakeError(ErrorCode::kDecisionBad,
                            "the statement chooses " + choice + ", but " + item.path + " is " + item.spdx +
                                "; to overrule it, applies_to must hold its hash too, " + ToHex(item.blob))
                      .In(statement.decision.path)
                      .Field("choice"));
    }
    return {};
  }

  // On SPDX's list, or the identifier of a license that the tables know.
  Status CheckSpdx(const std::string& choice, const std::string& path) const {
    if (tables_.FindSpdx(choice) != nullptr) return {};
    SLM_ASSIGN(const SpdxList list, ParseSpdxList(EmbeddedSpdxList()));
    std::string fault = SpdxFault(list, choice);
    if (fault.empty()) return {};
    return Fail(MakeError(ErrorCode::kDecisionBad, std::move(fault)).In(path).Field("choice"));
  }

  Status CheckDecisionsUsed() const {
    for (const Statement& statement : statements_) {
      if (statement.is_used) continue;
      return Fail(MakeError(ErrorCode::kDecisionBad,
                            "the statement applies to nothing that is open in this source; leave it out, or "
                            "correct applies_to")
                      .In(statement.decision.path)
                      .Field("applies_to"));
    }
    return {};
  }

  Status PutStatements() {
    std::vector<Hash256> of_license;
    for (const Statement& statement : statements_) {
      std::vector<Edge> edges;
      for (const Hash256& conflict : statement.conflicts) edges.push_back({"conflict", conflict});
      SLM_TRY(PutBlob(statement.decision.statement));
      SLM_ASSIGN(const Hash256 id, PutNode(DecisionNode(statement.decision, std::move(edges))));
      result_.decisions.push_back(id);
      if (statement.decision.kind == "license") of_license.push_back(id);
    }
    // In order of id: the order of the arguments enters no identity.
    std::sort(result_.decisions.begin(), result_.decisions.end());
    std::sort(of_license.begin(), of_license.end());
    for (const Hash256& id : of_license) license_.edges.push_back({"decision", id});
    return {};
  }

  Result<Acquisition> Publish() {
    SLM_TRY(PutBlob(profile_.text));
    SLM_TRY(PutBlob(AsBytes(EmbeddedLicenseCards())));
    SLM_TRY(PutBlob(AsBytes(EmbeddedLicenseTexts())));
    for (const StreamedFile& file : files_) SLM_TRY(PutNode(SourceFileNode(file)));
    for (const Node& node : conflict_nodes_) SLM_TRY(PutNode(node));
    SLM_TRY(PutStatements());
    SLM_ASSIGN(result_.tree, PutNode(SourceTreeNode(result_.files)));
    SLM_ASSIGN(result_.license, PutNode(LicenseNode(license_, tables_)));
    const Node node = AcquisitionNode(result_, profile_);
    const bool is_known = store_.HasNode(NodeId(node));
    SLM_ASSIGN(result_.id, PutNode(node));
    if (!is_known) {
      const Hash256 ids[] = {result_.id};
      SLM_TRY(AppendLog("acquisition", ids));
    }
    return std::move(result_);
  }

  const Store& store_;
  Store* sink_ = nullptr;  // null: nothing is written
  const DirectoryRequest& request_;
  Profile profile_;
  LicenseTables tables_;
  std::vector<Statement> statements_;
  std::vector<StreamedFile> files_;
  std::vector<json::Document> documents_;  // moving a Document keeps its values valid
  SourceView view_;
  std::vector<Node> conflict_nodes_;
  LicenseOutcome license_;
  Acquisition result_;
};

// The key or role in which two acquisitions differ.
std::string FirstDifference(const Node& recorded, const Node& derived) {
  for (std::string_view role : {"source-tree", "license", "conflict", "decision"}) {
    if (recorded.Children(role) != derived.Children(role)) return std::string(role);
  }
  return FirstDifferentKey(derived, recorded).value_or("form");
}

std::string PartOf(std::string_view difference) {
  if (difference == "license" || difference == "spdx" || difference == "redistribution") return "license";
  const bool is_conflict = difference == "conflict" || difference == "decision" || difference == "choices";
  return is_conflict ? "conflicts" : "source";
}

}  // namespace

std::optional<AcquisitionFault> JudgeAgain(const Store& store, const Hash256& id) {
  std::string part;
  const auto judge = [&]() -> Status {
    const DirectoryRequest none;
    SLM_ASSIGN(const Node derived, Transaction(store, none).RunAgain(id, &part));
    if (NodeId(derived) == id) return {};
    SLM_ASSIGN(const Node recorded, store.GetNode(id));
    const std::string where = FirstDifference(recorded, derived);
    part = PartOf(where);
    return Fail(MakeError(ErrorCode::kGraphSchema,
                          "the acquisition's files and statements give another " + where + " than it records")
                    .Field(where));
  };
  Status status = judge();
  if (status.has_value()) return std::nullopt;
  return AcquisitionFault{std::move(part), std::move(status).error()};
}

Result<Acquisition> AcquireDirectory(Store& store, const DirectoryRequest& request) {
  return Transaction(store, request).Run();
}

}  // namespace slm::acquire
