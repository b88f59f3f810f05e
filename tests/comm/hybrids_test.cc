// Tests the descriptions, weights and refusals of model families whose layers have recurrent states (hybrids).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelSpec ReadHybrid(const std::string& family, const Json& changes = Json::object()) {
  Json config = {{"model_type", family},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"intermediate_size", 96},
                 {"vocab_size", 100},
                 {"max_position_embeddings", 512},
                 {"head_dim", 16}};
  if (family.starts_with("qwen3")) config.update({{"linear_num_key_heads", 2}, {"linear_num_value_heads", 6}});
  if (family == "bamba" || family == "granitemoehybrid" || family == "falcon_h1")
    config.update({{"mamba_n_heads", 6}, {"mamba_d_head", 8}, {"mamba_d_state", 4}, {"num_local_experts", 0}});
  if (family == "falcon_h1") config["mamba_d_ssm"] = 48;
  config.update(changes);
  return SpecFromHf(config.dump(), "", "config.json");
}

std::vector<bool> Attending(const ModelSpec& spec) {
  std::vector<bool> attends;
  for (const LayerSpec& layer : spec.layers) attends.push_back(layer.has_attention());
  return attends;
}

TEST(HybridsTest, LayersWithAttention_AreReadFromEveryFormOfConfiguration) {
  EXPECT_THAT(Attending(ReadHybrid("lfm2", {{"layer_types", {"conv", "full_attention", "conv", "conv"}}})),
              ElementsAre(false, true, false, false));
  EXPECT_THAT(Attending(ReadHybrid("lfm2", {{"full_attn_idxs", {0, 3}}})), ElementsAre(true, false, false, true));
  EXPECT_THAT(Attending(ReadHybrid("lfm2")), ElementsAre(true, true, true, true));
  EXPECT_THAT(Attending(ReadHybrid("qwen3_5_text")), ElementsAre(false, false, false, true));
  EXPECT_THAT(Attending(ReadHybrid("qwen3_5_text", {{"full_attention_interval", 2}})),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("lfm2", {{"layer_types", {"conv", "full_attention", "conv", "linear"}}});
              }),
              HasSubstr("layer_types: \"linear\""));
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("lfm2", {{"full_attn_idxs", {4}}});
              }),
              HasSubstr("full_attn_idxs names layer 4 of 4"));
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("qwen3_5_text", {{"full_attention_interval", 0}});
              }),
              HasSubstr("full_attention_interval = 0"));
}

TEST(HybridsTest, LayersWithStateSpaces_AreReadFromEveryFormOfConfiguration) {
  const Json kinds = {"mamba", "attention", "linear_attention", "full_attention"};
  const ModelSpec granite = ReadHybrid("granitemoehybrid", {{"layer_types", kinds}});
  EXPECT_THAT(Attending(granite), ElementsAre(false, true, false, true));
  EXPECT_EQ(granite.layers[0].intermediate_size, 1024) << "of what all tokens go through";
  EXPECT_EQ(granite.layers[1].rope, -1);
  EXPECT_THAT(Attending(ReadHybrid("bamba", {{"attn_layer_indices", {0, 3}}})), ElementsAre(true, false, false, true));
  EXPECT_EQ(ReadHybrid("bamba", {{"attn_layer_indices", {0}}, {"mamba_d_head", "auto"}, {"mamba_n_heads", 8}})
                .recurrence.value_dim,
            16);
  const auto refusal = [&](const Json& changes) {
    return ErrorThrownBy([&] {
      Json config = {{"layer_types", kinds}};
      config.update(changes);
      ReadHybrid("granitemoehybrid", config);
    });
  };
  EXPECT_EQ(refusal({{"time_step_limit", {0.0, {{"__float__", "Infinity"}}}}}), "");
  EXPECT_THAT(refusal({{"time_step_limit", {0.0, 0.1}}}), HasSubstr("time_step_limit other than 0 to infinity"));
  EXPECT_THAT(refusal({{"mamba_proj_bias", true}}), HasSubstr("mamba_proj_bias = true is not supported"));
  EXPECT_THAT(refusal({{"position_embedding_type", "alibi"}}), HasSubstr("position_embedding_type = \"alibi\""));
  EXPECT_THAT(refusal({{"layer_types", {"mamba", "attention", "conv", "mamba"}}}), HasSubstr("layer_types: \"conv\""));
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("bamba", {{"attn_layer_indices", {4}}});
              }),
              HasSubstr("names layer 4 of 4"));
}

TEST(HybridsTest, LayersOfFalconH1_HaveAttentionAndAStateSpace_WithTheNormThatTheFileSays) {
  const ModelSpec spec = ReadHybrid("falcon_h1");
  for (const LayerSpec& layer : spec.layers)
    EXPECT_TRUE(layer.has_kv() && layer.has_state_heads() && layer.has_state_space() && layer.mlp);
  EXPECT_EQ(spec.num_state_layers(), 4);
  const auto norm_of = [](const Json& changes) { return ReadHybrid("falcon_h1", changes).recurrence.norm; };
  EXPECT_EQ(spec.recurrence.norm, StateNorm::kNone);
  EXPECT_EQ(norm_of({{"mamba_rms_norm", true}}), StateNorm::kBeforeGate);
  EXPECT_EQ(norm_of({{"mamba_rms_norm", true}, {"mamba_norm_before_gate", false}}), StateNorm::kAfterGate);
  const auto has_norm = [](const ModelSpec& of) {
    return std::ranges::count(WeightsOf(of), Role::kStateNorm, &WeightSpec::role) > 0;
  };
  EXPECT_FALSE(has_norm(spec));
  EXPECT_TRUE(has_norm(ReadHybrid("falcon_h1", {{"mamba_rms_norm", true}})));
  EXPECT_EQ(ReadHybrid("falcon_h1", {{"mamba_d_head", "auto"}}).recurrence.value_dim, 8);
  EXPECT_EQ(ReadHybrid("falcon_h1", {{"mamba_d_ssm", nullptr}, {"mamba_d_head", "auto"}, {"mamba_n_heads", 4}})
                .recurrence.value_dim,
            32)
      << "mamba_expand times hidden_size";
}

TEST(HybridsTest, FactorsOfFalconH1_MultiplyScoresProductsEmbeddingsAndLogits) {
  const ModelSpec spec = ReadHybrid("falcon_h1", {{"attention_in_multiplier", 2.0},
                                                  {"attention_out_multiplier", 0.5},
                                                  {"key_multiplier", 0.25},
                                                  {"ssm_in_multiplier", 3.0},
                                                  {"ssm_out_multiplier", 0.7},
                                                  {"mlp_multipliers", {0.6, 0.9}},
                                                  {"ssm_multipliers", {1.0, 2.0, 3.0, 4.0, 5.0}},
                                                  {"embedding_multiplier", 5.0},
                                                  {"lm_head_multiplier", 0.1}});
  EXPECT_EQ(spec.attention_scale, 2.0 * 2.0 * 0.25 / 4) << "the root of heads of 16 numbers";
  EXPECT_EQ(spec.embedding_scale, 5);
  EXPECT_EQ(spec.logit_scale, 0.1);
  const ProductScales wanted = {.attention_out = 1,
                                .state_out = 0.7,
                                .mlp_out = 0.9,
                                .mlp_gate = 0.6,
                                .state_query = 12,
                                .state_key = 9,
                                .state_value = 6,
                                .state_gate = 3,
                                .state_decay = 15};
  EXPECT_EQ(TextOf(spec.scales), TextOf(wanted));
  EXPECT_EQ(TextOf(ReadHybrid("falcon_h1").scales), TextOf(ProductScales()));
}

TEST(HybridsTest, SettingsOfFalconH1_AreRefused_WhenTheyAreNotComputedOrContradictEachOther) {
  const auto refusal = [](const Json& changes) { return ErrorThrownBy([&] { ReadHybrid("falcon_h1", changes); }); };
  EXPECT_THAT(refusal({{"projectors_bias", true}}), HasSubstr("projectors_bias = true is not supported"));
  EXPECT_THAT(refusal({{"attention_bias", true}}), HasSubstr("attention_bias = true is not supported"));
  EXPECT_THAT(refusal({{"mlp_bias", true}}), HasSubstr("mlp_bias = true is not supported"));
  EXPECT_THAT(refusal({{"mamba_d_ssm", 40}}), HasSubstr("6 heads of 8 numbers are not the 40 numbers"));
  EXPECT_THAT(refusal({{"mlp_multipliers", {1.0}}}), HasSubstr("mlp_multipliers lists 1 factors instead of 2"));
  EXPECT_THAT(refusal({{"ssm_multipliers", {1.0, 1.0}}}), HasSubstr("ssm_multipliers lists 2 factors instead of 5"));
  EXPECT_EQ(refusal({{"layer_types", {"hybrid", "hybrid", "hybrid", "hybrid"}}}), "");
  EXPECT_THAT(refusal({{"layer_types", {"hybrid", "attention", "hybrid", "hybrid"}}}),
              HasSubstr("layer_types: \"attention\" is not supported"));
  EXPECT_THAT(refusal({{"key_multiplier", 0.0}}), HasSubstr("keys or queries are multiplied by 0"));
  EXPECT_THAT(refusal({{"ssm_out_multiplier", 0.0}}), HasSubstr("the factor of a product, 0, is out of range"));
}

TEST(HybridsTest, LayersOfNemotronH_HaveEitherAMixerOrAnMlp) {
  const auto read = [](const Json& changes) {
    Json sizes = {{"mamba_num_heads", 6}, {"mamba_head_dim", 8}, {"ssm_state_size", 4}, {"n_groups", 2}};
    sizes.update(changes);
    return ReadHybrid("nemotron_h", sizes);
  };
  const ModelSpec words = read({{"layers_block_type", {"linear_attention", "mlp", "full_attention"}}});
  const ModelSpec letters = read({{"hybrid_override_pattern", "M-*"}});
  EXPECT_EQ(TextOf(words), TextOf(letters));
  ASSERT_EQ(words.num_layers(), 3) << "whatever num_hidden_layers says";
  for (const ExpectedTensor& tensor : ExpectedTensors(words, WeightsOf(words), Naming::kHf)) {
    const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    EXPECT_EQ(has("_proj.") && tensor.layer == 1, has("up_proj") || has("down_proj")) << tensor.name;
    EXPECT_EQ(has("layers.2.mixer."), has("q_proj") || has("k_proj") || has("v_proj") || has("o_proj")) << tensor.name;
  }
  const Json experts = {{"n_routed_experts", 4},
                        {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 8},
                        {"moe_shared_expert_intermediate_size", 12},
                        {"hybrid_override_pattern", "M-*E"}};
  for (const ExpectedTensor& tensor : ExpectedTensors(read(experts), WeightsOf(read(experts)), Naming::kHf))
    EXPECT_EQ(tensor.name.find("gate_proj"), std::string::npos) << tensor.name;
  EXPECT_TRUE(read(experts).layers[3].mixture);
  EXPECT_FALSE(read(experts).layers[1].mixture);
  EXPECT_THAT(ErrorThrownBy([&] {
                Json latent = experts;
                latent["moe_latent_size"] = 16;
                read(latent);
              }),
              HasSubstr("a space of their own (moe_latent_size) are not supported"));
  EXPECT_THAT(ErrorThrownBy([&] { read({{"hybrid_override_pattern", "M-*?"}}); }), HasSubstr("\"?\" is not supported"));
  EXPECT_THAT(ErrorThrownBy([&] {
                read({{"hybrid_override_pattern", "M*"}, {"mlp_hidden_act", "relu"}});
              }),
              HasSubstr("mlp_hidden_act = \"relu\""));
}

GgufFile FileOf(const std::string& architecture, const std::map<std::string, GgufValue>& changes) {
  GgufFile gguf{{}, {}, "file.gguf"};
  const std::map<std::string, GgufValue> usual = {{"context_length", int64_t{512}},
                                                  {"embedding_length", int64_t{64}},
                                                  {"block_count", int64_t{4}},
                                                  {"feed_forward_length", int64_t{96}},
                                                  {"attention.head_count", int64_t{4}},
                                                  {"attention.head_count_kv", int64_t{2}},
                                                  {"attention.layer_norm_rms_epsilon", 1e-5},
                                                  {"ssm.conv_kernel", int64_t{4}},
                                                  {"ssm.state_size", int64_t{8}},
                                                  {"ssm.group_count", int64_t{2}},
                                                  {"ssm.time_step_rank", int64_t{6}},
                                                  {"ssm.inner_size", int64_t{60}}};
  for (const auto* values : {&usual, &changes}) {
    for (const auto& [key, value] : *values) gguf.metadata[architecture + "." + key] = value;
  }
  gguf.metadata["general.architecture"] = architecture;
  gguf.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(100);
  return gguf;
}

std::string RefusalOf(const std::string& architecture, const std::map<std::string, GgufValue>& changes) {
  return ErrorThrownBy([&] { SpecFromGguf(FileOf(architecture, changes)); });
}

using CountsOfLayers = std::vector<int64_t>;

TEST(HybridGgufTest, ListsInGguf_DecideTheKindOfEachLayer) {
  const ModelSpec spec = SpecFromGguf(FileOf("nemotron_h", {{"attention.head_count_kv", CountsOfLayers{0, 0, 2, 0}},
                                                            {"feed_forward_length", CountsOfLayers{0, 96, 0, 0}}}));
  EXPECT_THAT(Attending(spec), ElementsAre(false, false, true, false));
  EXPECT_EQ(spec.layers[1].mixer, Mixer::kNone);
  EXPECT_TRUE(spec.layers[1].mlp);
  EXPECT_EQ(spec.layers[3].mixer, Mixer::kStateSpace);
  EXPECT_FALSE(spec.layers[3].mlp);
  EXPECT_EQ(spec.recurrence.value_dim, 10);
  const ModelSpec several = SpecFromGguf(FileOf("nemotron_h", {{"attention.head_count_kv", CountsOfLayers{0, 2, 4, 0}},
                                                               {"feed_forward_length", CountsOfLayers{96, 0, 0, 48}}}));
  EXPECT_EQ(several.layers[1].num_kv_heads, 2);
  EXPECT_EQ(several.layers[2].num_kv_heads, 4);
  EXPECT_EQ(several.layers[3].intermediate_size, 48);
  EXPECT_THAT(RefusalOf("lfm2", {{"attention.head_count_kv", CountsOfLayers{0, 2}}, {"shortconv.l_cache", int64_t{3}}}),
              HasSubstr("lists 2 layers of 4"));
  EXPECT_THAT(RefusalOf("nemotron_h", {{"attention.head_count_kv", CountsOfLayers{0, 0, 2, 0}},
                                       {"feed_forward_length", CountsOfLayers{0, 96, 0, 0}},
                                       {"ssm.time_step_rank", int64_t{7}}}),
              HasSubstr("ssm.inner_size = 60 does not divide over 7 heads"));
}

TEST(HybridGgufTest, MultiTokenPredictionLayers_AreLeftOut) {
  const ModelSpec spec =
      SpecFromGguf(FileOf("qwen35", {{"nextn_predict_layers", int64_t{1}}, {"full_attention_interval", int64_t{2}}}));
  EXPECT_THAT(Attending(spec), ElementsAre(false, true, false));
  EXPECT_THAT(RefusalOf("qwen35", {{"nextn_predict_layers", int64_t{4}}}), HasSubstr("nextn_predict_layers = 4 of 4"));
  EXPECT_THAT(RefusalOf("qwen35", {{"full_attention_interval", int64_t{0}}}),
              HasSubstr("interval = 0 is out of range"));
}

TEST(HybridGgufTest, GgufOfFalconH1_IsRefused_WhenItHasNoHeadOfItsOwn) {
  EXPECT_THAT(RefusalOf("falcon-h1", {}), HasSubstr("the file lacks the head's factor; serve the safetensors"));
}

TEST(HybridGgufTest, PartialRope_IsRefused_InGgufOfGraniteHybrids) {
  const std::map<std::string, GgufValue> hybrid = {{"attention.head_count_kv", CountsOfLayers{0, 2, 0, 0}},
                                                   {"rope.scaling.finetuned", true}};
  EXPECT_EQ(RefusalOf("granitehybrid", hybrid), "");
  std::map<std::string, GgufValue> partial = hybrid;
  partial["rope.dimension_count"] = int64_t{8};
  EXPECT_THAT(RefusalOf("granitehybrid", partial), HasSubstr("rope.dimension_count of a part of each head"));
}

TEST(HybridGgufTest, MixturesOfNemotron_AreRefused_WhenKeysAreMissingOrUnsupported) {
  const std::map<std::string, GgufValue> mixture = {{"attention.head_count_kv", CountsOfLayers{0, 0, 2, 0}},
                                                    {"feed_forward_length", CountsOfLayers{0, 8, 0, 0}},
                                                    {"expert_count", int64_t{4}},
                                                    {"expert_used_count", int64_t{2}},
                                                    {"expert_feed_forward_length", int64_t{8}},
                                                    {"expert_shared_feed_forward_length", int64_t{12}}};
  EXPECT_EQ(RefusalOf("nemotron_h_moe", mixture), "");
  std::map<std::string, GgufValue> other = mixture;
  other["expert_group_count"] = int64_t{2};
  EXPECT_THAT(RefusalOf("nemotron_h_moe", other), HasSubstr("it is not said how many a token chooses"));
  other = mixture;
  other["moe_latent_size"] = int64_t{16};
  EXPECT_THAT(RefusalOf("nemotron_h_moe", other), HasSubstr("a space of their own"));
}

TEST(HybridsTest, InfinityAndNaN_AreAccepted_AsPythonWritesThem) {
  const std::string config =
      R"({"model_type": "bamba", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 512,
      "attn_layer_indices": [0], "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 4,
      "_name_or_path": "a \"NaN\" and, Infinity", "unknown": [NaN, -Infinity], "time_step_limit": [0.0, Infinity]})";
  EXPECT_EQ(SpecFromHf(config, "", "config.json").recurrence.value_heads, 6);
}

TEST(HybridsTest, MlpColumnsOfLfm2_AreScaledAndRounded_UnlessAFlagMakesThemExact) {
  const auto columns = [](const Json& changes) { return ReadHybrid("lfm2", changes).layers[0].intermediate_size; };
  EXPECT_EQ(columns(Json::object()), 256);
  EXPECT_EQ(columns({{"block_auto_adjust_ff_dim", false}}), 96);
  EXPECT_EQ(columns({{"block_multiple_of", 8}}), 64);
  EXPECT_EQ(columns({{"block_multiple_of", 8}, {"block_ffn_dim_multiplier", 1.1}}), 72);
  EXPECT_EQ(columns({{"block_multiple_of", 8}, {"block_ff_dim", 120}}), 80);
  EXPECT_THAT(ErrorThrownBy([&] { columns({{"block_multiple_of", 0}}); }), HasSubstr("in multiples of 0"));
}

TEST(HybridsTest, GateOfTheSharedExpert_IsOff_WhenAMixtureHasNoSharedExpert) {
  Json experts = {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 8}};
  for (const int64_t shared : {0, 12}) {
    experts["shared_expert_intermediate_size"] = shared;
    const ModelSpec of_hf = ReadHybrid("qwen3_next", experts);
    EXPECT_EQ(of_hf.mixture.shared_gate, shared > 0);
    const ModelSpec of_gguf = SpecFromGguf(FileOf("qwen35moe", {{"expert_count", int64_t{4}},
                                                                {"expert_used_count", int64_t{2}},
                                                                {"expert_feed_forward_length", int64_t{8}},
                                                                {"expert_shared_feed_forward_length", shared}}));
    EXPECT_EQ(of_gguf.mixture.shared_gate, shared > 0);
  }
}

TEST(HybridGgufTest, LogitWeightedExperts_AreRefused_WhenTheyHaveGroups) {
  const std::map<std::string, GgufValue> of_groups = {{"expert_count", int64_t{4}},
                                                      {"expert_used_count", int64_t{2}},
                                                      {"expert_feed_forward_length", int64_t{8}},
                                                      {"expert_gating_func", int64_t{3}},
                                                      {"expert_group_count", int64_t{2}}};
  EXPECT_THAT(RefusalOf("qwen2moe", of_groups), HasSubstr("weighed by their logits and compared otherwise"));
}

TEST(HybridsTest, ValuesOutOfRange_AreRefusedByName) {
  const auto delta = [](const Json& changes) { return ErrorThrownBy([&] { ReadHybrid("qwen3_5_text", changes); }); };
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("lfm2", {{"conv_bias", true}});
              }),
              HasSubstr("conv_bias = true is not supported"));
  EXPECT_THAT(ErrorThrownBy([] {
                ReadHybrid("lfm2", {{"conv_L_cache", 9}, {"full_attn_idxs", {0}}});
              }),
              HasSubstr("the convolution's length of layers with states, 9"));
  EXPECT_THAT(delta({{"linear_conv_kernel_dim", 1}}), HasSubstr("the convolution's length of layers with states, 1"));
  EXPECT_THAT(delta({{"linear_num_value_heads", 7}}), HasSubstr("7 value heads do not divide over 2 key heads"));
  EXPECT_THAT(delta({{"linear_num_key_heads", 0}}), HasSubstr("the number of key heads"));
  EXPECT_THAT(delta({{"linear_key_head_dim", 1 << 20}}), HasSubstr("the size of key heads"));
  EXPECT_THAT(delta({{"linear_value_head_dim", -4}}), HasSubstr("the size of value heads"));
  EXPECT_THAT(delta({{"linear_num_key_heads", 8192}, {"linear_num_value_heads", 8192}, {"linear_key_head_dim", 4096}}),
              HasSubstr("the number of channels of queries of layers with states, 33554432"));
  EXPECT_THAT(delta({{"attention_bias", true}}), HasSubstr("attention_bias = true is not supported"));
  EXPECT_THAT(delta({{"full_attention_interval", 5}}), HasSubstr("models without attention"));
}

TEST(HybridsTest, DescriptionOfAModelSpec_ChangesWithEveryFieldOfTheRecurrence) {
  const ModelSpec plain = ReadHybrid("qwen3_5_text");
  std::set<std::string> texts = {TextOf(plain)};
  for (int64_t Recurrence::*field : {&Recurrence::taps, &Recurrence::channels, &Recurrence::key_heads,
                                     &Recurrence::value_heads, &Recurrence::key_dim, &Recurrence::value_dim}) {
    ModelSpec other = plain;
    other.recurrence.*field += 1;
    EXPECT_TRUE(texts.insert(TextOf(other)).second);
  }
  ModelSpec without_gate = plain, other_mixer = plain;
  without_gate.attention_gate = false;
  other_mixer.layers[0].mixer = Mixer::kStateSpace;
  ModelSpec with_biases = plain;
  with_biases.recurrence.taps_bias = true;
  EXPECT_TRUE(texts.insert(TextOf(with_biases)).second);
  ModelSpec without_norm = plain;
  without_norm.recurrence.norm = StateNorm::kNone;
  EXPECT_TRUE(texts.insert(TextOf(without_norm)).second);
  EXPECT_TRUE(texts.insert(TextOf(without_gate)).second);
  EXPECT_TRUE(texts.insert(TextOf(other_mixer)).second);
}

/// Returns the row numbers, in the file's tensor, of a weight's first and last row: in layer 3 for weights of
/// attention, otherwise in layer 0.
std::pair<int64_t, int64_t> Ends(const ModelSpec& spec, Role role) {
  const std::vector<WeightSpec> weights = WeightsOf(spec);
  const auto weight = std::ranges::find(weights, role, &WeightSpec::role);
  const int64_t layer = IsOfAttention(role) ? 3 : 0;
  const RowPlaces places = PlacesOf(spec, weights, *weight, layer, Naming::kHf);
  return {places.Of(0), places.Of(Extent(spec, weight->rows, layer) - 1)};
}

TEST(HybridsTest, RowsOfProjections_AreGroupedByHeadInQwen3Next_AndInOrderInQwen35) {
  // The model has 2 key heads of size 8, each with 3 value heads of size 4.
  const Json sizes = {{"linear_key_head_dim", 8}, {"linear_value_head_dim", 4}};
  Json mixture = {{"num_experts", 4},
                  {"num_experts_per_tok", 2},
                  {"moe_intermediate_size", 8},
                  {"shared_expert_intermediate_size", 8}};
  mixture.update(sizes);
  const ModelSpec next = ReadHybrid("qwen3_next", mixture), later = ReadHybrid("qwen3_5_text", sizes);
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(Ends(next, Role::kStateQuery), (Pair{0, 47}));  // 8 + 8 + 12 + 12 rows for each head
  EXPECT_EQ(Ends(next, Role::kStateKey), (Pair{8, 55}));
  EXPECT_EQ(Ends(next, Role::kStateValue), (Pair{16, 67}));
  EXPECT_EQ(Ends(next, Role::kStateGate), (Pair{28, 79}));
  EXPECT_EQ(Ends(next, Role::kStateBeta), (Pair{0, 8}));
  EXPECT_EQ(Ends(next, Role::kStateDecay), (Pair{3, 11}));
  EXPECT_EQ(Ends(later, Role::kStateQuery), (Pair{0, 15}));
  EXPECT_EQ(Ends(later, Role::kStateKey), (Pair{16, 31}));
  EXPECT_EQ(Ends(later, Role::kStateValue), (Pair{32, 55}));
  EXPECT_EQ(Ends(later, Role::kStateGate), (Pair{0, 23}));
  EXPECT_EQ(Ends(later, Role::kStateValueTaps), (Pair{32, 55}));
  EXPECT_EQ(Ends(later, Role::kQuery), (Pair{0, 111}));  // for each head, 16 rows of queries, then 16 rows of the gate
  EXPECT_EQ(Ends(later, Role::kAttentionGate), (Pair{16, 127}));
}

TEST(HybridsTest, Layers_HaveTheWeightsOfTheirMixers) {
  const ModelSpec spec = ReadHybrid("qwen3_5_text");
  for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
    const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    EXPECT_EQ(has(".linear_attn."), has(".linear_attn.") && tensor.layer < 3) << tensor.name;
    EXPECT_EQ(has(".self_attn."), has(".self_attn.") && tensor.layer == 3) << tensor.name;
    if (has(".conv1d.")) {
      EXPECT_THAT(tensor.shape, ElementsAre(2 * 2 * 128 + 6 * 128, 1, 4)) << "as files have it";
    }
  }
}

TEST(HybridsTest, TextModel_IsReadFromTextConfig_WhenItIsPartOfALargerModel) {
  Json text = {{"hidden_size", 64},        {"num_hidden_layers", 4},
               {"num_attention_heads", 4}, {"num_key_value_heads", 2},
               {"intermediate_size", 96},  {"vocab_size", 100},
               {"head_dim", 16},           {"max_position_embeddings", 512},
               {"eos_token_id", 7},        {"tie_word_embeddings", true}};
  const auto read = [&](const Json& changes) {
    Json config = {{"model_type", "qwen3_5"}, {"text_config", text}};
    config.update(changes);
    return SpecFromHf(config.dump(), "", "config.json");
  };
  const ModelSpec spec = read({{"vision_config", {{"depth", 3}}}});
  EXPECT_EQ(spec.hidden_size, 64);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_THAT(spec.eos_token_ids, ElementsAre(7));
  EXPECT_THAT(read({{"eos_token_id", {8, 9}}}).eos_token_ids, ElementsAre(8, 9)) << "the outer one counts";
  EXPECT_TRUE(MayBePresent(spec, "mtp.layers.0.mlp.up_proj.weight", Naming::kHf));
  EXPECT_TRUE(spec.text_only);
  EXPECT_FALSE(ReadHybrid("qwen3_5_text").text_only);
  EXPECT_TRUE(read({{"tie_word_embeddings", false}}).tied_embeddings) << "either may say so";
  text["attention_bias"] = true;
  EXPECT_THAT(ErrorThrownBy([&] { read(Json::object()); }),
              HasSubstr("text_config: attention_bias = true is not supported"));
}

}  // namespace
}  // namespace quire
