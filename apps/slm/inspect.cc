// slm inspect: header, manifest, tensors, ledger and configuration of an artifact.
#include <algorithm>

#include "apps/slm/commands.h"
#include "base/utf8.h"
#include "model/artifact_check.h"
#include "model/effective_config.h"
#include "model/plan.h"
#include "slm_file/artifact.h"
#include "slm_file/inspection.h"

namespace slm::app {
namespace {

struct InspectArgs {
  std::string file;
  bool explain = false;
};

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "x" : "") + std::to_string(shape[i]);
  return text;
}

std::string TextOf(const cbor::Map& map, std::string_view key) {
  return *map.Find(key)->AsTextString();
}

std::string BytesText(const cbor::Map& map, std::string_view key) {
  return EscapeForDisplay(AsText(*map.Find(key)->AsByteString()));
}

// "row-interleave-16 of model.layers.0.self_attn.q_proj.weight".
std::string LineageText(const cbor::Map& tensor) {
  std::string text;
  for (const cbor::Value& transform : *tensor.Find("transforms")->AsArray()) {
    text += (text.empty() ? "" : ", ") + TextOf(*transform.AsMap(), "op");
  }
  const cbor::Array& sources = *tensor.Find("source")->AsArray();
  return text + " of " + EscapeForDisplay(TextOf(*sources.front().AsMap(), "name"));
}

std::string HumanText(const Artifact& artifact) {
  const cbor::Map& manifest = artifact.manifest();
  const cbor::Map& source = *manifest.Find("source")->AsMap();
  std::string text =
      "artifact    " + ToHex(artifact.root()) + "\nsize        " + std::to_string(artifact.file().size()) +
      " bytes, data from " + std::to_string(artifact.data_offset()) + "\nsource      " +
      BytesText(source, "name") + " at " + BytesText(source, "revision") + ", acquisition " +
      ToHex(*source.Find("acquisition")->AsByteString()) + "\nlicense     " +
      EscapeForDisplay(TextOf(*manifest.Find("license")->AsMap(), "spdx")) + "\n\nsource files\n";
  for (const cbor::Value& file : *source.Find("files")->AsArray()) {
    const cbor::Map& row = *file.AsMap();
    text += "  " + Padded(BytesText(row, "path"), 36) + " " +
            Padded(std::to_string(*row.Find("size")->AsUint()), 11) + " " +
            ToHex(*row.Find("sha256")->AsByteString()) + "\n";
  }
  text += "\nblobs\n";
  for (const BlobEntry& blob : artifact.blobs()) {
    text += "  " + Padded(blob.kind, 36) + " " + Padded(std::to_string(blob.size), 11) + " " +
            ToHex(blob.sha256) + "\n";
  }
  text += "\ntensors and ledger\n";
  const cbor::Array& rows = *manifest.Find("tensors")->AsArray();
  for (size_t i = 0; i < artifact.tensors().size(); ++i) {
    const TensorEntry& entry = artifact.tensors()[i];
    text += "  " + Padded(EscapeForDisplay(entry.name), 36) + " " + Padded(ShapeText(entry.shape), 11) + " " +
            std::string(DTypeName(entry.dtype)) + " " + Padded(std::string(LayoutName(entry.layout)), 9) +
            " " + ToHex(entry.sha256).substr(0, 16) + " " + LineageText(*rows[i].AsMap()) + "\n";
  }
  const cbor::Array& omitted = *manifest.Find("omitted")->AsArray();
  if (!omitted.empty()) text += "\nleft out\n";
  for (const cbor::Value& row : omitted) {
    text += "  " + Padded(EscapeForDisplay(TextOf(*row.AsMap(), "name")), 36) + " " +
            EscapeForDisplay(TextOf(*row.AsMap(), "reason")) + "\n";
  }
  return text;
}

// The four columns of LVL-02, one field after the other.
std::string ExplainText(const Artifact& artifact) {
  std::string text =
      "\nconfiguration, in four columns (publisher | pinned source | left open | this artifact)\n";
  const auto line = [&](std::string_view title, const std::string& value) {
    if (!value.empty()) text += "    " + Padded(std::string(title), 11) + EscapeForDisplay(value) + "\n";
  };
  for (const cbor::Value& row : *artifact.manifest().Find("config_columns")->AsArray()) {
    const cbor::Map& map = *row.AsMap();
    text += "  " + TextOf(map, "field") + "\n";
    line("publisher", TextOf(map, "publisher"));
    line("pinned", TextOf(map, "pinned"));
    line("undefined", TextOf(map, "undefined"));
    line("choice", TextOf(map, "choice"));
  }
  text += "\nkeys without effect\n";
  for (const cbor::Value& row : *artifact.manifest().Find("ignored_metadata")->AsArray()) {
    const cbor::Map& map = *row.AsMap();
    text += "  " +
            EscapeForDisplay(TextOf(map, "file") + ": " + TextOf(map, "key") + " = " + TextOf(map, "value")) +
            "\n    " + EscapeForDisplay(TextOf(map, "reason")) + "\n";
  }
  text += "\nsampling declarations of the publisher, not applied\n";
  for (const cbor::Value& row : *artifact.manifest().Find("sampling_declarations")->AsArray()) {
    text +=
        "  " + EscapeForDisplay(TextOf(*row.AsMap(), "key") + " = " + TextOf(*row.AsMap(), "value")) + "\n";
  }
  return text;
}

// Names for `slm observe --taps`, in the order in which they are computed.
std::string PlanText(const Plan& plan) {
  size_t width = 0;
  for (const Step& step : plan.steps) width = std::max(width, step.observation.size());
  std::string text = "\nobservations (observation | operator | shape for one position)\n";
  for (const Step& step : plan.steps) {
    if (step.observation.empty()) continue;
    std::string shape;
    for (const uint64_t size : step.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    text += "  " + Padded(step.observation, width + 2) + Padded(std::string(OperatorName(step.op)), 18) +
            "[" + shape + "]\n";
  }
  return text;
}

void RunInspect(const InspectArgs& args, AppContext& context) {
  const auto artifact = Artifact::OpenFile(args.file, Verify::kAllChunks);
  if (!artifact) return context.Report(artifact.error());
  const auto config = CheckModelArtifact(**artifact);
  if (!config) return context.Report(Error(config.error()).In(args.file));
  if (context.json) return context.Print(InspectionJson(**artifact) + "\n");
  std::string text = HumanText(**artifact);
  if (args.explain) {
    const auto plan = BuildPlan(*config);
    if (!plan) return context.Report(Error(plan.error()).In(args.file));
    text += ExplainText(**artifact) + PlanText(*plan);
  }
  text += "\nconfiguration\n" + ConfigToJson(*config) + "\n";
  context.Print(text);
}

}  // namespace

void RegisterInspect(Command& root, AppContext& context) {
  auto* args = context.Own<InspectArgs>();
  Command& command =
      root.Add("inspect", "Print everything that an artifact holds, after checking every byte");
  command.Option("file", &args->file, "A .slm file", true);
  command.Flag(
      "--explain", &args->explain,
      "For each field: publisher, pinned source, what is left open, our choice; and the observations");
  command.Help({.examples = {"slm inspect model.slm --explain"},
                .input = "any .slm of version 1",
                .memory = "the mapped file and its manifest of at most 16 MiB",
                .time = "the file is hashed twice"});
  command.Run([args, &context] { RunInspect(*args, context); });
}

}  // namespace slm::app
