// Binding a plan to tensors: everything that does not fit is refused with the tensor's name.
#include "runtime/bound_model.h"

#include <gtest/gtest.h>

#include "runtime/session.h"
#include "runtime/test_model.h"

namespace slm {
namespace {

using testing_model::Bind;
using testing_model::Config;
using testing_model::Random;
using testing_model::Weights;

void ExpectRefused(Weights weights, ErrorCode code, std::string_view tensor) {
  const auto model = Bind(std::move(weights));
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, code) << model.error().ToString();
  EXPECT_EQ(model.error().field, tensor);
}

TEST(BoundModel, BindsWhatFits) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto model = Bind(Random(Config(), 1, dtype));
    ASSERT_TRUE(model.has_value());
    EXPECT_EQ((*model)->bound_steps().size(), (*model)->plan().steps.size());
  }
}

TEST(BoundModel, MatricesAreReadInPlace) {  // one copy of the weights
  const auto weights = std::make_shared<const Weights>(Random(Config(), 1));
  const auto model = Model::Create(weights->config, testing_model::Lookup(*weights), weights);
  ASSERT_TRUE(model.has_value());
  const std::vector<Step>& steps = (*model)->plan().steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].weight.empty()) continue;
    const void* stored = weights->tensors.at(steps[i].weight).bytes.data();
    const BoundStep& bound = (*model)->bound_steps()[i];
    EXPECT_EQ(
        steps[i].op == Operator::kRmsNorm ? static_cast<const void*>(bound.vector.data()) : bound.matrix.data,
        stored);
  }
}

TEST(BoundModel, RefusesWhatDoesNotFit) {  // MAP-04
  Weights weights = Random(Config(), 1);
  weights.tensors.erase("layers.2.attn.v.weight");
  ExpectRefused(std::move(weights), ErrorCode::kMapMissing, "layers.2.attn.v.weight");

  weights = Random(Config(), 1);
  std::swap(weights.tensors["layers.0.attn.k.weight"].shape[0],
            weights.tensors["layers.0.attn.k.weight"].shape[1]);
  ExpectRefused(std::move(weights), ErrorCode::kMapShape, "layers.0.attn.k.weight");

  weights = Random(Config(), 1);
  weights.tensors["head.weight"].layout = Layout::kRowMajor;
  ExpectRefused(std::move(weights), ErrorCode::kSlmLayout, "head.weight");

  weights = Random(Config(), 1);
  weights.tensors["head.weight"].bytes.resize(53 * 40 * 4);  // the logical size, without padding rows
  ExpectRefused(std::move(weights), ErrorCode::kSlmTensorSize, "head.weight");

  weights = Random(Config(), 1);
  weights.tensors["final_norm.weight"].dtype = DType::kF16;
  ExpectRefused(std::move(weights), ErrorCode::kSlmTensorSize, "final_norm.weight");

  EffectiveConfig config = Config();
  config.o_bias = true;
  weights = Random(Config(), 1);
  weights.config = config;
  ExpectRefused(std::move(weights), ErrorCode::kMapMissing, "layers.0.attn.o.bias");
}

TEST(BoundModel, NothingIsReadBeforeItsCheck) {  // no byte outside the hashed set
  const auto weights = std::make_shared<const Weights>(Random(Config(), 1));
  std::map<std::string, int, std::less<>> calls;
  std::string_view refused = "layers.1.mlp.up.weight";
  const TensorCheck check = [&](std::string_view name) -> Status {
    ++calls[std::string(name)];
    if (name == refused) return Fail(MakeError(ErrorCode::kSlmChunk, "differs").Field(name));
    return {};
  };
  const auto model = Model::Create(weights->config, testing_model::Lookup(*weights), weights, check);
  ASSERT_TRUE(model.has_value());
  EXPECT_TRUE(calls.empty());
  const std::vector<uint32_t> ids = {1, 2, 3};
  const auto run = [&] {
    const auto session = Session::Create(*model, {});
    return (*session)->Prefill(ids, LogitRows::kLast, nullptr, nullptr);
  };
  const Status status = run();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kSlmChunk);
  EXPECT_EQ(status.error().field, refused);
  EXPECT_FALSE(calls.contains("layers.2.attn.q.weight"));  // nothing behind it was touched
  refused = "";
  EXPECT_TRUE(run().has_value());
  EXPECT_TRUE(run().has_value());
  EXPECT_EQ(calls.size(), weights->tensors.size());  // every tensor of the plan, and each only once
  for (const auto& [name, count] : calls) EXPECT_EQ(count, name == "layers.1.mlp.up.weight" ? 2 : 1) << name;
}

TEST(BoundModel, RefusesMisalignedTensors) {
  const auto weights = std::make_shared<const Weights>(Random(Config(), 1));
  std::vector<uint8_t> shifted(weights->tensors.at("embed.weight").bytes.size() + 1);
  const auto base = testing_model::Lookup(*weights);
  const TensorLookup lookup = [&](std::string_view name) {
    auto view = base(name);
    if (name == "embed.weight") view->bytes = ByteSpan(shifted).subspan(1);
    return view;
  };
  const auto model = Model::Create(weights->config, lookup, weights);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code, ErrorCode::kSlmAlign);
  EXPECT_EQ(model.error().field, "embed.weight");
}

}  // namespace
}  // namespace slm
