// Tests files that have prediction layers (multi-token prediction): which layer is read as a model of its own, under
// which names its tensors are found, and which files are refused.
#include "comm/model/architectures/prediction_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/model/architecture.h"
#include "comm/model/model_files.h"
#include "tests/support/error_of.h"
#include "tests/support/prediction_model.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

std::string GoldenPath(const std::string& model) { return std::string(QUIRE_TEST_DATA) + "/models/" + model; }

/// A golden model with its prediction layer. A test changes the files.
struct WithLayer : test::RewrittenModel {
  explicit WithLayer(const std::string& name) : RewrittenModel(name) { AddTensorsOf("mtp/" + name + ".safetensors"); }
};

TEST(PredictionLayerTest, Layer_IsReadAsAModelOfOneLayer_WithTheEmbeddingAndHeadOfTheWholeModel) {
  for (const char* name : {"deepseekv3", "glm4moe", "glm4moelite", "qwen3next", "qwen35"}) {
    const test::PredictionModel model(name);
    const ModelFiles files = model.Open(), layer = model.OpenPrediction();
    const ModelSpec& spec = layer.spec();
    EXPECT_TRUE(spec.predicts && !files.spec().predicts) << name;
    ASSERT_EQ(spec.num_layers(), 1) << name;
    EXPECT_TRUE(spec.layers[0].has_attention()) << name;
    EXPECT_EQ(spec.layers[0].mixture, std::string(name) != "qwen35") << name;
    EXPECT_EQ(spec.num_state_layers(), 0) << name;
    for (const Role role : {Role::kEmbedding, Role::kHead})
      EXPECT_TRUE(std::ranges::equal(layer.Get(role).data, files.Get(role).data)) << name;
    EXPECT_FALSE(std::ranges::equal(layer.Get(Role::kFinalNorm).data, files.Get(Role::kFinalNorm).data)) << name;
    EXPECT_EQ(layer.Get(Role::kPredictionIn).shape, (std::vector{spec.hidden_size, 2 * spec.hidden_size})) << name;
    EXPECT_NE(layer.Fingerprint(), files.Fingerprint()) << name;
  }
}

TEST(PredictionLayerTest, WholeModel_IsReadWithoutThePredictionLayer_AndANoteSaysSo) {
  const test::PredictionModel model("glm4moe");
  const ModelFiles files = model.Open(), without = ModelFiles::Open(GoldenPath("glm4moe"));
  EXPECT_EQ(files.spec().num_layers(), 3);
  EXPECT_EQ(TextOf(files.spec()), TextOf(without.spec()));
  EXPECT_THAT(files.notes(),
              Contains(AllOf(HasSubstr("layers that predict further tokens, 0.1 MiB"), HasSubstr("mtp"))));
  EXPECT_THAT(without.notes(), Each(Not(HasSubstr("predict"))));
}

TEST(PredictionLayerTest, Files_WithoutAUsableLayer_AreRefusedByName) {
  const auto problem = [](const std::string& path) { return ErrorThrownBy([&] { ModelFiles::OpenPrediction(path); }); };
  EXPECT_THAT(problem(GoldenPath("gqa")),
              HasSubstr(GoldenPath("gqa") + ": the prediction layers of a llama are not supported"));
  EXPECT_THAT(problem(GoldenPath("erniemoe")), HasSubstr("prediction layers of a ernie4_5_moe are not supported"));
  EXPECT_THAT(problem(GoldenPath("glm4moe")),
              HasSubstr(GoldenPath("glm4moe") + ": the files have no layers that predict"));
  EXPECT_THAT(problem(GoldenPath("glm4moe.gguf")), HasSubstr("the files have no layers that predict"));
  WithLayer lacking("glm4moe");
  lacking.tensors.erase("model.layers.3.hnorm.weight");
  lacking.tensors.erase("model.layers.3.self_attn.o_proj.weight");
  EXPECT_THAT(problem(lacking.Write()),
              AllOf(HasSubstr("prediction.hidden_norm.weight"), HasSubstr("model.layers.0.self_attn.o_proj.weight"),
                    HasSubstr("names of a model that has the prediction layer alone")));
}

TEST(PredictionLayerTest, FurtherPredictionLayers_AreLeftOut_AndCopiesOfTheEmbeddingAreNotRead) {
  WithLayer several("deepseekv3");
  several.tensors["model.layers.3.embed_tokens.weight"].bytes.clear();
  several.AddTensor("model.layers.3.embed_tokens.weight", {139, 48});  // zeros
  EXPECT_NO_THROW(ModelFiles::OpenPrediction(several.Write()));
  WithLayer qwen("qwen35");
  qwen.AddTensor("mtp.layers.1.mlp.up_proj.weight", {60, 40});
  const std::string path = qwen.Write();
  EXPECT_EQ(ModelFiles::OpenPrediction(path).spec().num_layers(), 1);
  EXPECT_NO_THROW(ModelFiles::Open(path));
}

TEST(PredictionLayerTest, PredictionLayer_IsFound_InFilesOfAMultimodalModel) {
  test::RewrittenModel vision("qwen35.vision");
  vision.tensors.erase("mtp.norm.weight");
  vision.AddTensorsOf("mtp/qwen35.safetensors");
  EXPECT_TRUE(ModelFiles::OpenPrediction(vision.Write()).spec().predicts);
}

}  // namespace
}  // namespace quire
