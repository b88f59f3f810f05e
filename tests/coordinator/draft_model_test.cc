// Tests which draft models and prediction layers fit a served model, and what the workers' assignment says about them.
#include "coordinator/cluster/launch/draft_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "comm/base/json.h"
#include "coordinator/text/tokenizer/same_tokens.h"
#include "tests/support/error_of.h"
#include "tests/support/prediction_model.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string PathOf(const std::string& model) { return std::string(QUIRE_TEST_DATA) + "/models/" + model; }

Topology WithDraft(const std::string& draft) {
  Topology topology;
  topology.speculation.method = SpeculationMethod::kDraftModel;
  topology.speculation.draft_model = PathOf(draft);
  topology.speculation.num_tokens = 4;
  topology.speculation.disable_by_batch_size = 6;
  return topology;
}

TEST(DraftModelPairTest, Assignment_NamesTheDraftModelAndItsLimits) {
  const auto served = ModelFiles::Open(PathOf("gqa"));
  Topology topology = WithDraft("mqa");
  const DraftModelSettings draft = DraftModelOf(topology, served);
  const auto files = ModelFiles::Open(PathOf("mqa"));
  EXPECT_EQ(draft.path, PathOf("mqa"));
  EXPECT_EQ(draft.fingerprint, files.Fingerprint());
  EXPECT_EQ(draft.num_tokens, 4);
  EXPECT_EQ(draft.max_sequences, 6);
  EXPECT_EQ(draft.max_model_len, files.spec().max_position);
  topology.speculation.method = SpeculationMethod::kSuffix;
  EXPECT_EQ(DraftModelOf(topology, served), DraftModelSettings());
}

TEST(DraftModelPairTest, ModelsThatCannotGuess_AreRefused_WithBothNames) {
  const auto problem = [](const char* draft, const char* served) {
    return ErrorThrownBy([&] { DraftModelOf(WithDraft(draft), ModelFiles::Open(PathOf(served))); });
  };
  EXPECT_THAT(problem("lfm2", "gqa"),
              AllOf(HasSubstr(PathOf("lfm2") + " cannot guess for " + PathOf("gqa")), HasSubstr("carries a state")));
  EXPECT_EQ(problem("gqa", "qwen35"), "") << "only the draft model must be without states";
  EXPECT_THAT(problem("bert", "gqa"), HasSubstr("the draft model makes no text"));
  EXPECT_THAT(problem("gqa", "bert"), HasSubstr("the served model makes embeddings"));
  EXPECT_THAT(problem("nowhere", "gqa"), HasSubstr("nowhere"));
}

TEST(PredictionLayerPairTest, MtpAssignment_NamesTheModelsFiles_AndFilesWithoutAPredictionLayerAreRefused) {
  Topology topology;
  topology.speculation.method = SpeculationMethod::kMtp;
  topology.speculation.num_tokens = 3;
  const test::PredictionModel model("qwen35");
  const DraftModelSettings draft = DraftModelOf(topology, model.Open());
  EXPECT_EQ(draft.path, model.path());
  EXPECT_EQ(draft.fingerprint, model.OpenPrediction().Fingerprint());
  EXPECT_EQ(draft.num_tokens, 3);
  EXPECT_TRUE(draft.predicts);
  EXPECT_THAT(ErrorThrownBy([&] { DraftModelOf(topology, ModelFiles::Open(PathOf("glm4moe"))); }),
              AllOf(HasSubstr("--speculative-config, method mtp: " + PathOf("glm4moe")),
                    HasSubstr("have no layers that predict")));
}

TEST(DraftRowsTest, WorkersAreTold_TheRowsOfAllSequencesThatMayHaveDraftsInAStep) {
  Topology topology;
  EXPECT_EQ(MostDraftRows(topology), 8 * 9) << "predictions are drafts by default";
  topology.speculation.num_tokens = 3;
  topology.scheduler.max_running = 5;
  EXPECT_EQ(MostDraftRows(topology), 5 * 4);
  topology.speculation.method = SpeculationMethod::kOff;
  EXPECT_EQ(MostDraftRows(topology), 0);
}

TEST(SameTokensTest, Tokenizers_ThatDiffer_AreRefused_WithBothNamesAndTheToken) {
  TemporaryDirectory folder;
  const std::string path = folder.path() + "/other";
  std::filesystem::copy(PathOf("gqa"), path);
  const auto served = ModelFiles::Open(PathOf("gqa"));
  EXPECT_NO_THROW(CheckSameTokens(ModelFiles::Open(path), served));
  std::ifstream in(path + "/tokenizer.json");
  Json data = Json::parse(in);
  Json& vocabulary = data["model"]["vocab"];
  const int a = vocabulary["a"], b = vocabulary["b"];
  vocabulary["a"] = b;
  vocabulary["b"] = a;
  std::ofstream(path + "/tokenizer.json") << data;
  const std::string problem = ErrorThrownBy([&] { CheckSameTokens(ModelFiles::Open(path), served); });
  EXPECT_THAT(problem,
              AllOf(HasSubstr(path + " cannot guess for " + PathOf("gqa")),
                    HasSubstr(fmt::format("token {} is", std::min(a, b))), HasSubstr("\"b\""), HasSubstr("\"a\"")));
}

}  // namespace
}  // namespace quire
