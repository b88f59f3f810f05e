#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/base/error.h"
#include "comm/topology/topology.h"
#include "coordinator/api/openai/model_desk.h"
#include "coordinator/cluster/hosts/model_shares.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

/// Returns the memory that a model needs, given in MiB. If `least` equals `most`, the settings give the KV cache's
/// size.
ModelNeed Need(const char* name, int64_t weights, int64_t least, int64_t most) {
  return {.name = name,
          .weights = weights * kMiB,
          .kv_least = least * kMiB,
          .kv_most = most * kMiB,
          .fixed = least == most};
}

std::vector<int64_t> Shares(int64_t room, const std::vector<ModelNeed>& needs) {
  std::vector<int64_t> kv = ShareKv(room * kMiB, needs);
  for (int64_t& bytes : kv) bytes /= kMiB;
  return kv;
}

TEST(ModelSharesTest, MemoryBesideTheWeights_IsDividedEvenlyAmongModels) {
  EXPECT_THAT(Shares(1000, {Need("a", 100, 10, 5000), Need("b", 300, 10, 5000)}), ElementsAre(300, 300));
}

TEST(ModelSharesTest, MemoryThatOneModelCannotUse_IsGivenToOtherModels_WhateverTheirOrder) {
  EXPECT_THAT(Shares(1000, {Need("a", 100, 10, 5000), Need("b", 300, 10, 50)}), ElementsAre(550, 50));
  EXPECT_THAT(Shares(1000, {Need("b", 300, 10, 50), Need("a", 100, 10, 5000), Need("c", 0, 10, 5000)}),
              ElementsAre(50, 275, 275));
}

TEST(ModelSharesTest, ModelNeeds_WhatAllItsWorkersTakeBesideWeightsAndBlocks) {
  MemoryPlan plan;
  plan.ranks.resize(2);
  for (RankInfo& rank : plan.ranks) {
    rank.weight_bytes = 100 * kMiB;
    rank.bytes_per_block = kMiB;
    rank.working = {.process_bytes = 10 * kMiB, .step_bytes = 5 * kMiB, .file_bytes = kMiB};
  }
  plan.pools.num_blocks = 11;
  plan.model_len = 160;
  Topology topology;
  topology.parallel.replicas = 3;
  topology.cache.num_blocks = 10;
  ModelSpec spec;
  spec.max_position = 160;
  const ModelNeed need = NeedOf(plan, topology, spec);
  EXPECT_EQ(need.working, int64_t{3} * 2 * 16 * kMiB);
  EXPECT_EQ(need.With(need.kv_most), int64_t{3} * 2 * (100 + 16 + 11) * kMiB);
}

TEST(ModelSharesTest, ModelWithAConfiguredCacheSize_KeepsThatSize) {
  EXPECT_THAT(Shares(1000, {Need("a", 100, 400, 400), Need("b", 100, 10, 5000)}), ElementsAre(400, 400));
}

TEST(ModelSharesTest, WeightsAndCachesOfAllModels_NeverExceedTheMemory) {
  for (int64_t room = 330; room < 2000; room += 37) {
    const std::vector<ModelNeed> needs = {Need("a", 100, 10, 90), Need("b", 30, 20, 700), Need("c", 150, 10, 9000)};
    const std::vector<int64_t> kv = Shares(room, needs);
    int64_t sum = 0;
    for (size_t i = 0; i < needs.size(); ++i) {
      EXPECT_GE(kv[i], needs[i].kv_least / kMiB);
      EXPECT_LE(kv[i], needs[i].kv_most / kMiB);
      sum += kv[i] + needs[i].weights / kMiB;
    }
    EXPECT_LE(sum, room);
  }
}

TEST(ModelSharesTest, ModelsThatDoNotFit_AreRefusedWithTheirSizes) {
  const std::string error = ErrorThrownBy([] { Shares(619, {Need("a", 300, 10, 900), Need("b", 300, 10, 900)}); });
  EXPECT_THAT(error, HasSubstr("need 620 MiB (a 310 MiB, b 310 MiB), and 619 MiB are there"));
  EXPECT_THAT(Shares(620, {Need("a", 300, 10, 900), Need("b", 300, 10, 900)}), ElementsAre(10, 10));
}

TEST(ModelSharesTest, KvShareOfAModel_BecomesABlockCount_WithoutTheNullBlock) {
  Topology::Cache cache;
  ModelNeed need = Need("a", 1, 1, 9);
  need.block_bytes = 3 * kMiB;
  SetKvShare(32 * kMiB, need, cache);
  EXPECT_EQ(cache.num_blocks, 9);
  need.fixed = true;
  SetKvShare(90 * kMiB, need, cache);
  EXPECT_EQ(cache.num_blocks, 9);
}

TEST(ModelSharesTest, RoomOfModels_IsTheSetting_OrAShareOfTheFreeMemory) {
  Topology t;
  EXPECT_EQ(RoomOfModels(t, 1000), 900);
  t.models_memory_bytes = 77;
  EXPECT_EQ(RoomOfModels(t, 1000), 77);
}

TEST(ModelNamedInTest, ModelNamedIn_ReadsTheMemberOfTheOutermostObjectOnly) {
  EXPECT_EQ(ModelNamedIn(R"({"model": "a"})"), "a");
  EXPECT_EQ(ModelNamedIn(R"({"x": {"model": "b"}, "y": [{"model": "c"}], "z": "\"model\": \"d\"", "model": "\u0061"})"),
            "a");
}

TEST(ModelNamedInTest, ModelNamedIn_ReturnsNothing_WithoutATextMemberModel) {
  for (const char* body :
       {"", "{}", "[\"model\", \"a\"]", R"({"model": 5})", R"({"model": null, "x": "a"})",
        R"({"model": {"model": "a"}})", R"({"model": ["a"]})", R"({"x": "model")", "\"model\"", "\xff"})
    EXPECT_EQ(ModelNamedIn(body), "") << body;
}

Topology ListOf(const std::string& yaml) { return TopologyFromYaml(yaml, "t.yaml"); }

TEST(ModelListTest, Model_InheritsTheDocumentsSettings_UnlessTheModelHasOwnSettings) {
  const Topology t = ListOf(
      "scheduler: {max_model_len: 64, max_running: 7}\n"
      "models:\n"
      "  - {name: a, path: /a}\n"
      "  - {name: [b, c], path: /b, scheduler: {max_model_len: 32}, parallel: {tensor: 2}, threads_per_worker: 3}\n");
  ASSERT_EQ(NumModels(t), 2);
  EXPECT_EQ(t.model.path, "/a");  // the settings of the single model are those of the list's first model
  const Topology second = ModelTopology(t, 1);
  EXPECT_EQ(second.model.path, "/b");
  EXPECT_EQ(second.model.aliases, std::vector<std::string>{"c"});
  EXPECT_EQ(second.scheduler.max_model_len, 32);
  EXPECT_EQ(second.scheduler.max_running, 7);
  EXPECT_EQ(second.parallel.tensor, 2);
  EXPECT_EQ(second.threads_per_worker, 3);
  EXPECT_TRUE(second.models.empty());
  EXPECT_EQ(ModelTopology(t, 0).scheduler.max_model_len, 64);
}

TEST(ModelListTest, EachReplicaOfEachModel_HasPortsAndAJournalOfItsOwn) {
  const Topology t = ListOf(
      "transport: {bind: 127.0.0.1, ports: [7000, 7001]}\njournal: /j\n"
      "models: [{name: a, path: /a, parallel: {replicas: 2}}, {name: b, path: /b}, {name: c, path: /c}]\n");
  const Topology b = ModelTopology(t, 1), c = ModelTopology(t, 2);
  EXPECT_THAT(ReplicaTopology(ModelTopology(t, 0), 1).transport.ports, ElementsAre(7002, 7003));
  EXPECT_THAT(b.transport.ports, ElementsAre(7004, 7005));
  EXPECT_THAT(c.transport.ports, ElementsAre(7006, 7007));
  EXPECT_THAT(ReplicaTopology(ModelTopology(t, 0), 1).transport.mpi_ports, ElementsAre(46025, 46049));
  EXPECT_THAT(b.transport.mpi_ports, ElementsAre(46050, 46074));
  EXPECT_THAT(c.transport.mpi_ports, ElementsAre(46075, 46099));
  EXPECT_EQ(b.journal, "/j/model-1");
  EXPECT_EQ(ReplicaTopology(ModelTopology(t, 0), 1).journal, "/j/model-0/replica-1");
}

/// Returns the same need, for a model that is loaded on request. `whole`: MiB of KV memory for one sequence of the
/// model's full length.
ModelNeed OnRequest(ModelNeed need, int64_t whole) {
  need.on_request = true;
  need.kv_whole = whole * kMiB;
  return need;
}

TEST(ModelSharesTest, ModelsLoadedOnRequest_ShareTheMemory_WhenAllFitWithAWholeSequenceEach) {
  bool at_once = false;
  const std::vector<int64_t> kv = ShareKvInTurns(
      1000 * kMiB, {OnRequest(Need("a", 100, 10, 5000), 50), OnRequest(Need("b", 300, 10, 5000), 50)}, at_once);
  EXPECT_TRUE(at_once);
  EXPECT_THAT(kv, ElementsAre(300 * kMiB, 300 * kMiB));
}

TEST(ModelSharesTest, ModelsLoadedInTurn_GetHalfOfTheMemory_OrMemoryForAWholeSequence) {
  bool at_once = true;
  const auto small = OnRequest(Need("small", 100, 10, 5000), 50);
  const auto large = OnRequest(Need("large", 600, 10, 5000), 200);
  const auto huge = OnRequest(Need("huge", 950, 10, 5000), 200);
  EXPECT_THAT(ShareKvInTurns(1000 * kMiB, {small, large, huge}, at_once),
              ElementsAre(400 * kMiB, 200 * kMiB, 50 * kMiB));
  EXPECT_FALSE(at_once);
}

TEST(ModelSharesTest, ModelsLoadedAtTheStart_MustFitTogether_ButModelsLoadedOnRequestOnlyAlone) {
  bool at_once = true;
  const auto later = OnRequest(Need("later", 600, 10, 5000), 200);
  const std::vector<ModelNeed> needs = {Need("a", 300, 10, 5000), later, Need("b", 400, 10, 5000)};
  EXPECT_THAT(ShareKvInTurns(1000 * kMiB, needs, at_once), ElementsAre(150 * kMiB, 200 * kMiB, 100 * kMiB));
  EXPECT_THAT(ErrorThrownBy([&] {
                ShareKvInTurns(1000 * kMiB, {Need("a", 600, 10, 50), later, Need("b", 600, 10, 50)}, at_once);
              }),
              HasSubstr("models_memory"));
  EXPECT_THAT(ErrorThrownBy([&] { ShareKvInTurns(500 * kMiB, {later}, at_once); }),
              HasSubstr("model later needs 610 MiB"));
}

TEST(ModelListTest, ListOfOneModel_MeansTheSame_AsASingleModel) {
  Topology alone = ListOf("{model: {name: a, path: /a}, journal: /j}");
  Topology listed = ModelTopology(ListOf("{models: [{name: a, path: /a}], journal: /j}"), 0);
  EXPECT_EQ(alone, listed);
}

TEST(ModelListTest, List_IsRefused_WhenANameMeansTwoModelsOrSettingsClash) {
  const auto refusal = [](const std::string& yaml) {
    return ErrorThrownBy([&] { ValidateTopology(ListOf(yaml), "t.yaml"); });
  };
  EXPECT_THAT(refusal("models: [{name: a, path: /a}, {name: [b, a], path: /b}]"), HasSubstr("two models are called"));
  EXPECT_THAT(refusal("models: [{name: a, path: /a}, {name: b, path: /b, adapters: [{name: a, path: /x}]}]"),
              HasSubstr("two models are called"));
  EXPECT_THAT(refusal("{adapters: [{name: x, path: /x}], models: [{name: a, path: /a}]}"), HasSubstr("leave model"));
  EXPECT_THAT(refusal("models: [{name: a, path: /a}, {name: b, path: /b, parallel: {shares: [1, 2]}}]"),
              HasSubstr("model \"b\": 2 shares for tensor parallel size 1"));
  EXPECT_THAT(refusal("{transport: {bind: 127.0.0.1, ports: [7000, 7002]}, models: [{name: a, path: /a}, {name: b, "
                      "path: /b}]}"),
              HasSubstr("one must be odd"));
  EXPECT_EQ(refusal("models: [{name: a, path: /a}, {name: b, path: /b}]"), "");
}

}  // namespace
}  // namespace quire
