// slm mutate SOURCE --cases FILE --evidence FILE... --policy FILE --expected FILE [--builds DIR]
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "apps/slm/mutants.h"
#include "codec/sha256.h"
#include "compare/compare.h"
#include "evidence/candidate.h"
#include "evidence/cases_file.h"
#include "evidence/observe.h"
#include "slm_file/mapped_file.h"

extern char** environ;

namespace slm::app {
namespace {

constexpr uint64_t kMaxExpectedBytes = uint64_t{1} << 20;

struct MutateArgs {
  std::string source, cases, policy, expected, builds;
  std::vector<std::string> evidence, only, decisions;
  uint64_t seed = 1;
};

// One entry of the expectations file.
struct Expectation {
  std::string name;  // also of the patch, where it is another build
  std::string what;  // the defect in a few words
  bool is_noop = false;
  bool is_build = false;
  // Levels; together every one that a suite of text and ids can claim, and the truth rule.
  std::vector<std::string> must_fail, must_pass;
  std::vector<std::string> must_not_claim;  // after a file that is refused
  std::string first_place;                  // what the first difference must name; empty for a no-op
};

Result<std::vector<std::string>> Texts(const json::Value& object, std::string_view key) {
  std::vector<std::string> out;
  const auto list = object.Find(key);
  if (!list || !list->is_array()) {
    return Fail(MakeError(ErrorCode::kCaseSchema, "expected an array").At(object.byte_offset()).Field(key));
  }
  for (json::Value item : list->children()) {
    if (!item.is_string())
      return Fail(MakeError(ErrorCode::kCaseSchema, "expected text").At(item.byte_offset()).Field(key));
    out.emplace_back(item.string());
  }
  return out;
}

// An expectation says what must become of every level: none may go unlooked at.
Status CheckComplete(const Expectation& one, uint64_t byte_offset) {
  constexpr std::string_view kLevels[] = {"L0", "L1", "L2", "L3", "L5", "L6", "L7", "L9", "truth"};
  for (std::string_view level : kLevels) {
    const auto n_in = [level](const std::vector<std::string>& list) {
      return std::count(list.begin(), list.end(), level);
    };
    if (n_in(one.must_fail) + n_in(one.must_pass) + n_in(one.must_not_claim) == 1) continue;
    return Fail(
        MakeError(ErrorCode::kCaseSchema, one.name + " says nothing, or two things, of " + std::string(level))
            .At(byte_offset)
            .Field("must_fail"));
  }
  if (one.first_place.empty() != one.is_noop || one.must_fail.empty() != one.is_noop) {
    return Fail(
        MakeError(ErrorCode::kCaseSchema, one.name + ": a defect fails a level at a place, a no-op none")
            .At(byte_offset)
            .Field("first"));
  }
  return {};
}

Result<std::vector<Expectation>> ParseExpectations(std::string text) {
  SLM_ASSIGN(const json::Document document, json::Parse(std::move(text)));
  const auto list = document.root().is_object() ? document.root().Find("mutants") : std::nullopt;
  if (!list || !list->is_array()) {
    return Fail(MakeError(ErrorCode::kCaseSchema, "expected an object with the array mutants")
                    .At(0)
                    .Field("mutants"));
  }
  std::vector<Expectation> out;
  for (json::Value entry : list->children()) {
    const auto text_of = [&entry](std::string_view key) {
      const auto value = entry.is_object() ? entry.Find(key) : std::nullopt;
      return value && value->is_string() ? std::string(value->string()) : std::string();
    };
    Expectation one;
    one.name = text_of("name");
    one.what = text_of("what");
    one.first_place = text_of("first");
    const std::string kind = text_of("kind");
    if (one.name.empty() || one.what.empty() ||
        (kind != "data" && kind != "build" && kind != "noop-data" && kind != "noop-build")) {
      return Fail(MakeError(ErrorCode::kCaseSchema,
                            "a mutant has name, what, and kind data, build, noop-data or noop-build")
                      .At(entry.byte_offset())
                      .Field("kind"));
    }
    one.is_noop = kind.starts_with("noop");
    one.is_build = kind.ends_with("build");
    SLM_ASSIGN(one.must_fail, Texts(entry, "must_fail"));
    SLM_ASSIGN(one.must_pass, Texts(entry, "must_pass"));
    if (entry.Find("must_not_claim")) {
      SLM_ASSIGN(one.must_not_claim, Texts(entry, "must_not_claim"));
    }
    SLM_TRY(CheckComplete(one, entry.byte_offset()));
    out.push_back(std::move(one));
  }
  return out;
}

// What a gate gets: a file, and whether it is an artifact or a container. Nothing says which mutant it is:
// the file's name is its place in the shuffled order.
struct Submission {
  std::string path;
  bool is_artifact = false;
};

struct GateResult {
  std::map<std::string, compare::Verdict, std::less<>> verdicts;  // by level name
  std::string first;                                              // the first difference, for people
  std::string first_place;
};

// The gates, exactly as promote runs them: open with every hash, observe, compare.
class Gate {
 public:
  Gate(const compare::Evidence& evidence, const compare::Policy& policy,
       const std::vector<evidence::CaseSpec>& cases, const Hash256& cases_sha256)
      : evidence_(evidence), policy_(policy), cases_(cases), cases_sha256_(cases_sha256) {}

  [[nodiscard]] GateResult Judge(const Submission& submission) const {
    if (!submission.is_artifact) {
      auto file = MappedFile::Open(submission.path);
      if (!file.has_value()) return Refused(file.error());
      auto candidate = golden::Golden::Open((*file)->bytes());
      return candidate.has_value() ? Compare(**candidate) : Refused(candidate.error());
    }
    auto artifact = Artifact::OpenFile(submission.path, Verify::kAllChunks);
    if (!artifact.has_value()) return Refused(artifact.error());
    auto candidate = evidence::Candidate::Open(*std::move(artifact));
    if (!candidate.has_value()) return Refused(candidate.error());
    evidence::ObserveOptions options;
    options.like = evidence_.reference;
    options.cases_sha256 = cases_sha256_;
    Bytes container;
    const Status status =
        evidence::Observe(**candidate, cases_, options, [&container](ByteSpan bytes) -> Status {
          container.insert(container.end(), bytes.begin(), bytes.end());
          return {};
        });
    if (!status.has_value()) return Refused(status.error());
    auto golden = golden::Golden::FromBytes(std::move(container));
    return golden.has_value() ? Compare(**golden) : Refused(golden.error());
  }

 private:
  // Nothing after identity can be claimed of a file that is refused.
  static GateResult Refused(const Error& error) {
    GateResult result;
    for (size_t i = 0; i < compare::kLevelCount; ++i) {
      result.verdicts[std::string(compare::LevelName(static_cast<compare::Level>(i)))] =
          compare::Verdict::kNotClaimed;
    }
    result.verdicts["truth"] = compare::Verdict::kNotClaimed;
    result.verdicts["L0"] = compare::Verdict::kFail;
    Error nameless = error;
    nameless.file.clear();  // the working folder's name says nothing
    result.first = "L0: " + nameless.ToString();
    result.first_place = error.CodeText();
    return result;
  }

  [[nodiscard]] GateResult Compare(const golden::Golden& candidate) const {
    auto comparison = compare::Compare(evidence_, candidate, policy_);
    if (!comparison.has_value()) return Refused(comparison.error());
    GateResult result;
    for (const compare::LevelResult& level : comparison->levels) {
      result.verdicts[std::string(compare::LevelName(level.level))] = level.verdict;
    }
    result.verdicts["truth"] = comparison->truth.verdict;
    if (comparison->first) {
      result.first = compare::DifferenceText(*comparison->first);
      result.first_place = comparison->first->place;
    }
    return result;
  }

  const compare::Evidence& evidence_;
  const compare::Policy& policy_;
  const std::vector<evidence::CaseSpec>& cases_;
  Hash256 cases_sha256_;
};

bool IsCaught(compare::Verdict verdict) {
  return verdict == compare::Verdict::kFail || verdict == compare::Verdict::kError ||
         verdict == compare::Verdict::kUnstable;
}

// splitmix64 (Steele, Lea, Flood 2014): the order must not depend on a library.
uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::vector<size_t> Shuffled(size_t n, uint64_t seed) {
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[NextRandom(&seed) % i]);
  return order;
}

// `relative` in the nearest folder above this program that has it: the program runs from any folder.
std::string BesideExecutable(const std::string& relative) {
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  for (std::filesystem::path at = executable.parent_path(); !error && at.has_relative_path();
       at = at.parent_path()) {
    if (std::filesystem::exists(at / relative, error)) return (at / relative).string();
  }
  return relative;
}

Status RunBuild(const std::string& executable, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  std::string name = executable;
  argv.push_back(name.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, executable.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return Fail(MakeError(ErrorCode::kIo, "cannot start this build; make it with tests/mutants/build.py")
                    .In(executable));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(MakeError(ErrorCode::kInternal, "this build did not observe the suite").In(executable));
}

class Mutation {
 public:
  Mutation(AppContext& context, const MutateArgs& args) : context_(context), args_(args) {}

  Status Run() {
    SLM_ASSIGN(std::string expected_text, ReadTextFile(args_.expected, kMaxExpectedBytes));
    auto expectations = ParseExpectations(std::move(expected_text));
    if (!expectations.has_value()) return Fail(std::move(expectations).error().In(args_.expected));
    for (Expectation& one : *expectations) {
      const bool chosen =
          args_.only.empty() || std::find(args_.only.begin(), args_.only.end(), one.name) != args_.only.end();
      if (chosen) expectations_.push_back(std::move(one));
    }
    if (expectations_.empty()) return Fail(ErrorCode::kUsage, "no mutant of these names");
    SLM_TRY(FindBuilds());
    SLM_ASSIGN(const std::string temporary, TemporaryDirectory());
    work_ = temporary + "/slm-mutate." + std::to_string(getpid());
    std::error_code error;
    std::filesystem::create_directories(work_, error);
    if (error) return Fail(MakeError(ErrorCode::kIo, "cannot make a working folder").In(work_));
    const Status status = MakeAndJudge();
    std::filesystem::remove_all(work_, error);
    return status;
  }

 private:
  // Before the long work.
  [[nodiscard]] Status FindBuilds() const {
    for (const Expectation& mutant : expectations_) {
      const std::string program = args_.builds + "/" + mutant.name + "/slm";
      if (!mutant.is_build || access(program.c_str(), X_OK) == 0) continue;
      return Fail(MakeError(ErrorCode::kNotFound,
                            "no build of mutant " + mutant.name +
                                "; tests/mutants/build.py makes them, --builds names their folder")
                      .In(program));
    }
    return {};
  }

  Status MakeAndJudge() {
    SLM_TRY(MakeBaseline());
    const std::vector<size_t> order = Shuffled(expectations_.size(), args_.seed);
    std::vector<Submission> submissions;  // in that order, which tells nothing
    ProgressBar bar("mutants");
    for (size_t place = 0; place < order.size(); ++place) {
      bar.Update(place, 2 * order.size());
      SLM_ASSIGN(Submission submission, Make(expectations_[order[place]], place));
      submissions.push_back(std::move(submission));
    }
    const Gate gate(evidence_, policy_, cases_, cases_sha256_);
    std::vector<GateResult> results(order.size());  // in the order of the expectations
    for (size_t place = 0; place < order.size(); ++place) {
      bar.Update(order.size() + place, 2 * order.size());
      results[order[place]] = gate.Judge(submissions[place]);
    }
    Report(results);
    return {};
  }

  Status MakeBaseline() {
    SLM_ASSIGN(store_, Store::Open(work_ + "/store"));
    ChainRequest request;
    request.source = args_.source;
    request.cases_path = args_.cases;
    request.policy_path = args_.policy;
    request.evidence_paths = args_.evidence;
    request.statement_paths = args_.decisions;
    request.work_directory = work_;
    SLM_ASSIGN(const ChainResult baseline, RunChain(*store_, request));
    if (!baseline.promotion.Holds() || args_.evidence.empty()) {
      return Fail(ErrorCode::kClaimFailed, "the unchanged chain does not hold; mutants would show nothing");
    }
    SLM_ASSIGN(artifact_path_, store_->BlobPath(baseline.artifact_blob));
    SLM_ASSIGN(artifact_, Artifact::OpenFile(artifact_path_, Verify::kAllChunks));
    SLM_ASSIGN(const std::string observation_path, store_->BlobPath(baseline.observation_blob));
    SLM_ASSIGN(observation_file_, MappedFile::Open(observation_path));
    SLM_ASSIGN(observation_, golden::Golden::Open(observation_file_->bytes()));
    SLM_ASSIGN(const std::string cases, ReadTextFile(args_.cases, kMaxCasesBytes));
    cases_sha256_ = Sha256Of(AsBytes(cases));
    SLM_ASSIGN(cases_, evidence::ParseCases(cases));
    SLM_ASSIGN(const std::string policy, ReadTextFile(args_.policy, kMaxPolicyBytes));
    SLM_ASSIGN(policy_, compare::ParsePolicy(policy));
    std::vector<const golden::Golden*> raw;
    for (const std::string& path : args_.evidence) {
      SLM_ASSIGN(auto file, MappedFile::Open(path));
      SLM_ASSIGN(auto golden, golden::Golden::Open(file->bytes()));
      raw.push_back(golden.get());
      evidence_files_.push_back(std::move(file));
      evidence_containers_.push_back(std::move(golden));
    }
    SLM_ASSIGN(evidence_, compare::SortEvidence(raw));
    return {};
  }

  Result<Submission> Make(const Expectation& mutant, size_t place) {
    Submission submission;
    submission.path = work_ + "/" + std::to_string(place);
    if (mutant.is_build) {
      SLM_TRY(RunBuild(args_.builds + "/" + mutant.name + "/slm",
                       {"observe", artifact_path_, "--cases", args_.cases, "--like", ReferencePath(), "-o",
                        submission.path}));
      return submission;
    }
    using ArtifactMaker = Status (*)(const Artifact&, const std::string&);
    static const std::map<std::string, ArtifactMaker, std::less<>> kArtifactMakers = {
        {"weight-row", PermuteWeightRow},
        {"epsilon", ChangeEpsilon},
        {"wrong-eos", WrongEos},
        {"flipped-byte", FlipByte},
        {"noop-artifact", [](const Artifact& artifact,
                             const std::string& path) { return RewriteArtifact(artifact, {}, path); }},
    };
    if (const auto maker = kArtifactMakers.find(mutant.name); maker != kArtifactMakers.end()) {
      submission.is_artifact = true;
      SLM_TRY(maker->second(*artifact_, submission.path));
      return submission;
    }
    if (mutant.name == "nan-lane") {
      SLM_TRY(NanLane(*observation_, submission.path));
      return submission;
    }
    if (mutant.name == "noop-observations") {
      SLM_TRY(RewriteGolden(*observation_, {}, submission.path));
      return submission;
    }
    return Fail(
        MakeError(ErrorCode::kCaseSchema, "no data mutant is called " + mutant.name).In(args_.expected));
  }

  [[nodiscard]] std::string ReferencePath() const {
    for (size_t i = 0; i < evidence_containers_.size(); ++i) {
      if (evidence_containers_[i]->mode() == golden::Mode::kReference) return args_.evidence[i];
    }
    return "";
  }

  struct Outcome {
    std::string caught;  // levels, separated by blanks
    std::vector<std::string> wrong;
  };
  static Outcome Check(const Expectation& expected, const GateResult& result) {
    Outcome outcome;
    for (size_t i = 0; i < compare::kLevelCount; ++i) {
      const std::string level(compare::LevelName(static_cast<compare::Level>(i)));
      if (IsCaught(result.verdicts.at(level))) outcome.caught += (outcome.caught.empty() ? "" : " ") + level;
    }
    if (IsCaught(result.verdicts.at("truth")))
      outcome.caught += (outcome.caught.empty() ? "" : " ") + std::string("truth");
    for (const std::string& level : expected.must_fail) {
      // A level that could not be compared, or gave no answer, has not shown the defect.
      const auto found = result.verdicts.find(level);
      if (found == result.verdicts.end() || found->second != compare::Verdict::kFail)
        outcome.wrong.push_back(level + " should fail");
    }
    for (const std::string& level : expected.must_pass) {
      const auto found = result.verdicts.find(level);
      if (found == result.verdicts.end() || found->second != compare::Verdict::kPass) {
        outcome.wrong.push_back(level + " should pass");
      }
    }
    for (const std::string& level : expected.must_not_claim) {
      const auto found = result.verdicts.find(level);
      if (found == result.verdicts.end() || found->second != compare::Verdict::kNotClaimed)
        outcome.wrong.push_back(level + " should not be claimed");
    }
    if (expected.is_noop && !outcome.caught.empty()) outcome.wrong.push_back("a no-op was caught");
    if (!expected.is_noop && outcome.caught.empty()) outcome.wrong.push_back("nothing caught it");
    if (result.first_place != expected.first_place) {
      outcome.wrong.push_back("the first place should be " +
                              (expected.first_place.empty() ? "none" : expected.first_place));
    }
    return outcome;
  }

  static std::string Padded(std::string text, size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text + " ";
  }

  void Report(const std::vector<GateResult>& results) {
    bool all_as_expected = true;
    json::Writer out(true);
    out.BeginObject().Key("seed").Uint(args_.seed).Key("mutants").BeginArray();
    std::string text;
    for (size_t i = 0; i < results.size(); ++i) {
      const Expectation& expected = expectations_[i];
      const Outcome outcome = Check(expected, results[i]);
      all_as_expected = all_as_expected && outcome.wrong.empty();
      out.BeginObject().Key("name").String(expected.name).Key("what").String(expected.what);
      out.Key("noop").Bool(expected.is_noop).Key("caught").String(outcome.caught);
      out.Key("first").String(results[i].first).Key("as_expected").Bool(outcome.wrong.empty());
      out.Key("levels").BeginObject();
      for (const auto& [level, verdict] : results[i].verdicts)
        out.Key(level).String(compare::VerdictName(verdict));
      out.EndObject().Key("wrong").BeginArray();
      for (const std::string& wrong : outcome.wrong) out.String(wrong);
      out.EndArray().EndObject();
      text += "  " + Padded(expected.name, 18) +
              Padded(expected.is_noop ? "no-op, passes" : "caught by " + outcome.caught, 34);
      text += outcome.wrong.empty() ? "" : "WRONG: ";
      for (const std::string& wrong : outcome.wrong) text += wrong + "; ";
      text += results[i].first + "\n";
    }
    out.EndArray().Key("as_expected").Bool(all_as_expected).EndObject();
    context_.Print(context_.json ? out.Take() + "\n" : text);
    context_.exit_code = all_as_expected ? 0 : 1;
  }

  AppContext& context_;
  const MutateArgs& args_;
  std::vector<Expectation> expectations_;
  std::string work_;
  std::unique_ptr<Store> store_;
  std::string artifact_path_;
  std::shared_ptr<const Artifact> artifact_;
  std::unique_ptr<MappedFile> observation_file_;
  std::shared_ptr<const golden::Golden> observation_;
  std::vector<std::unique_ptr<MappedFile>> evidence_files_;
  std::vector<std::shared_ptr<const golden::Golden>> evidence_containers_;
  compare::Evidence evidence_;
  compare::Policy policy_;
  std::vector<evidence::CaseSpec> cases_;
  Hash256 cases_sha256_{};
};

}  // namespace

void RegisterMutate(Command& root, AppContext& context) {
  auto* args = context.Own<MutateArgs>();
  args->expected = BesideExecutable("tests/mutants/expected.json");
  args->builds = BesideExecutable("mutants");
  Command& command = root.Add("mutate", "Seeded defects, and which level catches each");
  command.Option("source", &args->source, "Source directory", true);
  command.Option("--cases", &args->cases, "Cases file, JSON Lines", true);
  command.Option("--evidence", &args->evidence, "Oracle container; once for each mode", true);
  command.Option("--policy", &args->policy, "Tolerance policy", true);
  command.Option(
      "--expected", &args->expected,
      "Mutants and what each must do (default tests/mutants/expected.json of this program's tree)");
  command.Option("--builds", &args->builds,
                 "Folder of the mutant builds (default mutants beside this program's build)");
  command.Option("--decision", &args->decisions, "Statement of a person that the unchanged chain needs");
  command.Option("--only", &args->only, "Run this mutant only; may be repeated");
  command.Option("--seed", &args->seed, "Of the order in which the gates get them (default 1)");
  command.Help(
      {.examples =
           {"slm mutate models/slm-demo --cases cases.jsonl --evidence reference.golden --policy p.json"},
       .input = "as for promote",
       .memory = "as for promote",
       .time = "a promotion for each mutant",
       .notes = "Exit status 0 if every mutant is caught where it must be, and every no-op passes."});
  command.Run([args, &context] {
    const Status status = Mutation(context, *args).Run();
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
