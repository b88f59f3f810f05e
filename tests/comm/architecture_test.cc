// Tests the descriptions that model configurations yield, the weights that follow from a description, and refusals.
#include "comm/model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/model_files.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Json SmallConfig(const std::string& family) {
  return {{"model_type", family},     {"hidden_size", 64},
          {"num_hidden_layers", 3},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 96},
          {"vocab_size", 100},        {"max_position_embeddings", 512}};
}

ModelSpec Read(const std::string& family, const Json& changes = Json::object()) {
  Json config = SmallConfig(family);
  config.update(changes);
  return SpecFromHf(config.dump(), "", "config.json");
}

std::vector<int64_t> WindowsOf(const ModelSpec& spec) {
  std::vector<int64_t> windows;
  for (const LayerSpec& layer : spec.layers) windows.push_back(layer.window);
  return windows;
}

TEST(ArchitectureTest, Weights_HaveUniqueRolesAndNames_InEveryFamily) {
  for (const std::string family :
       {"llama",   "mistral", "ministral", "qwen2",    "qwen3",  "phi3",        "granite",
        "smollm3", "olmo2",   "olmo3",     "gemma",    "gemma2", "gemma3_text", "gemma4_text",
        "glm",     "glm4",    "ernie4_5",  "seed_oss", "arcee",  "exaone4",     "hunyuan_v1_dense"}) {
    const ModelSpec spec = Read(family, {{"tie_word_embeddings", false}});
    std::set<Role> roles;
    std::set<std::string> hf, gguf;
    for (const WeightSpec& weight : WeightsOf(spec)) {
      EXPECT_TRUE(roles.insert(weight.role).second) << family << " " << weight.hf;
      EXPECT_TRUE(hf.insert(weight.hf).second || weight.fusion != Fusion::kNone) << family << " " << weight.hf;
      const std::string in_gguf = PatternOf(weight, Naming::kGguf);
      EXPECT_TRUE(gguf.insert(in_gguf).second || weight.fusion != Fusion::kNone) << family << " " << in_gguf;
      const bool numbered = std::string(weight.hf).find("{}") != std::string::npos;
      EXPECT_EQ(numbered, IsOfLayer(weight.role)) << weight.hf;
      EXPECT_EQ(in_gguf.find("{}") != std::string::npos, numbered) << in_gguf;
    }
    EXPECT_EQ(roles.contains(Role::kQueryBias), family == "qwen2" || family.starts_with("glm") || family == "seed_oss");
    EXPECT_EQ(roles.contains(Role::kQueryNorm), family == "qwen3" || family.starts_with("olmo") ||
                                                    family == "gemma3_text" || family == "gemma4_text" ||
                                                    family == "exaone4" || family == "hunyuan_v1_dense");
  }
}

TEST(ArchitectureTest, TiedHead_IsReadFromTheEmbedding) {
  const auto head_of = [](bool tied) {
    const ModelSpec spec = Read("llama", {{"tie_word_embeddings", tied}});
    for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
      if (tensor.role == Role::kHead) return tensor.name;
    }
    return std::string();
  };
  EXPECT_EQ(head_of(true), "model.embed_tokens.weight");
  EXPECT_EQ(head_of(false), "lm_head.weight");
}

TEST(ArchitectureTest, UnsupportedKeys_AreRefusedByName_WhenTheyChangeTheResult) {
  const std::pair<Json, std::string> cases[] = {
      {{{"attention_bias", true}}, "attention_bias = true"},
      {{{"mlp_bias", true}}, "mlp_bias = true"},
      {{{"hidden_act", "gelu"}}, "hidden_act = \"gelu\""},
      {{{"final_logit_softcapping", 30.0}}, "final_logit_softcapping = 30.0"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor = 0.5"},
      {{{"num_local_experts", 8}}, "num_local_experts = 8"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
      {{{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}, "layer_types"},
      {{{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}}}, "rope_scaling of type dynamic"},
      {{{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
       "rope_parameters: partial_rotary_factor = 0.5"},
  };
  for (const auto& [change, reason] : cases) {
    const Json& changes = change;
    const std::string error = ErrorThrownBy([&] { Read("llama", changes); });
    EXPECT_THAT(error, AllOf(HasSubstr(reason), HasSubstr("not supported"), Not(HasSubstr("\n"))));
  }
  // In Qwen3, attention_bias adds biases to all four projections of attention. Quire does not support that, so the key
  // is refused.
  EXPECT_THAT(ErrorThrownBy([] { Read("qwen3", {{"attention_bias", true}}); }), HasSubstr("attention_bias"));
}

TEST(ArchitectureTest, Keys_AreAccepted_WhenTheyLeaveTheResultUnchanged) {
  const Json neutral = {{"attention_bias", false},
                        {"hidden_act", "swish"},
                        {"logit_scale", 1},
                        {"num_local_experts", 0},
                        {"final_logit_softcapping", nullptr},
                        {"partial_rotary_factor", 1.0},
                        {"rope_scaling", nullptr},
                        {"use_cache", true},
                        {"torch_dtype", "bfloat16"},
                        {"unheard_of", 7}};
  EXPECT_EQ(TextOf(Read("llama", neutral)), TextOf(Read("llama")));
  EXPECT_EQ(TextOf(Read("qwen2", {{"attention_bias", true}})), TextOf(Read("qwen2"))) << "HF does not look at it";
}

TEST(ArchitectureTest, WindowsOfQwenLayers_EqualHfsWindows) {
  const Json slides = {{"use_sliding_window", true}, {"sliding_window", 24}};
  const auto with = [&](const Json& more) {
    Json all = slides;
    all.update(more);
    return all;
  };
  EXPECT_EQ(WindowsOf(Read("qwen2", {{"sliding_window", 24}})), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(WindowsOf(Read("qwen2", slides)), (std::vector<int64_t>{0, 0, 0})) << "from layer 28 on";
  EXPECT_EQ(WindowsOf(Read("qwen3", with({{"max_window_layers", 1}}))), (std::vector<int64_t>{0, 24, 24}));
  const Json kinds = {{"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}};
  EXPECT_EQ(WindowsOf(Read("qwen2", with(kinds))), (std::vector<int64_t>{24, 0, 24}));
  EXPECT_EQ(Read("qwen2", with(kinds)).window(), 0) << "some layer sees all";
  EXPECT_EQ(Read("qwen2", with({{"max_window_layers", 0}})).window(), 24);
  EXPECT_THAT(ErrorThrownBy([&] { Read("qwen2", {{"layer_types", {"full_attention"}}}); }), HasSubstr("1 layers of 3"));
  EXPECT_THAT(ErrorThrownBy([&] {
                Read("qwen2", {{"layer_types", {"x", "x", "x"}}});
              }),
              HasSubstr("\"x\" is not supported"));
}

TEST(ArchitectureTest, RotatedDims_FollowRotaryDimOrPartialRotaryFactor_InMiniMax) {
  const auto rotated_of = [](const Json& changes) {
    Json all = {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"head_dim", 16}};
    all.update(changes);
    return RotatedDims(Read("minimax_m2", all), 0);
  };
  EXPECT_EQ(rotated_of(Json::object()), 16);
  EXPECT_EQ(rotated_of({{"rotary_dim", 4}}), 4);
  EXPECT_EQ(rotated_of({{"rotary_dim", 4}, {"rope_parameters", {{"partial_rotary_factor", 0.5}}}}), 8);
}

TEST(ArchitectureTest, LayersOfExaone4_Rotate_OnlyWhenTheyHaveAWindow_UnlessNoLayerHasOne) {
  const auto ropes_of = [](const Json& changes) {
    std::vector<int64_t> ropes;
    for (const LayerSpec& layer : Read("exaone4", changes).layers) ropes.push_back(layer.rope);
    return ropes;
  };
  using Ropes = std::vector<int64_t>;
  EXPECT_EQ(ropes_of({{"sliding_window_pattern", 2}}), (Ropes{0, -1, 0}));
  EXPECT_EQ(WindowsOf(Read("exaone4", {{"sliding_window_pattern", 2}})), (std::vector<int64_t>{4096, 0, 4096}));
  const Json kinds = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(ropes_of({{"layer_types", kinds}, {"sliding_window_pattern", "GLG"}}), (Ropes{-1, 0, -1}));
  EXPECT_EQ(ropes_of({{"sliding_window", nullptr}}), (Ropes{0, 0, 0}));
  EXPECT_EQ(Read("exaone4", {{"sliding_window", nullptr}}).window(), 0);
}

ModelSpec ReadLlama4(const Json& changes) {
  Json all = {{"num_hidden_layers", 4}, {"num_local_experts", 4}, {"num_experts_per_tok", 1}};
  all.update(changes);
  return Read("llama4_text", all);
}

TEST(ArchitectureTest, LayersOfLlama4_HaveChunksAndNormsWhereTheyRotate_AndGrowingQueriesElsewhere) {
  const auto kinds_of = [](const Json& changes) {
    const ModelSpec spec = ReadLlama4(changes);
    std::string kinds;
    for (const LayerSpec& layer : spec.layers) {
      EXPECT_EQ(layer.qk_norm, spec.qk_norm == QkNorm::kNone || layer.rope == 0);
      kinds += layer.rope < 0 ? 'n' : layer.rope == 1 ? 'g' : layer.chunk > 0 ? 'c' : 'r';
      kinds += layer.mixture ? "m" : "";
    }
    return kinds;
  };
  EXPECT_EQ(kinds_of(Json::object()), "cmcmcmgm");
  EXPECT_EQ(kinds_of({{"interleave_moe_layer_step", 2}, {"no_rope_layers", Json::array()}}), "ccmcgm");
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"no_rope_layers", {1, 0, 0, 1}}}), "cmggc");
  EXPECT_EQ(kinds_of({{"moe_layers", {3}}, {"no_rope_layer_interval", 2}}), "cgcgm");
  EXPECT_EQ(kinds_of({{"moe_layers", Json::array()}, {"attention_chunk_size", nullptr}}), "rrrg");
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"attn_temperature_tuning", false}}), "cmccn");
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"attn_temperature_tuning", 0}}), "cmccn");
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"attn_temperature_tuning", 4}}), "cmccg") << "as published files say";
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"use_qk_norm", false}}), "cmccg");
  const Json kinds = {"full_attention", "chunked_attention", "full_attention", "full_attention"};
  EXPECT_EQ(kinds_of({{"moe_layers", {0}}, {"layer_types", kinds}}), "rmcrg");
  const ModelSpec spec = ReadLlama4({{"intermediate_size_mlp", 70}, {"attention_chunk_size", 24}, {"floor_scale", 12}});
  EXPECT_EQ(spec.chunk(), 24);
  EXPECT_EQ(spec.window(), 0);
  EXPECT_EQ(spec.layers[0].intermediate_size, 70);
  EXPECT_EQ(spec.mixture.intermediate_size, 96);
  EXPECT_EQ(spec.mixture.shared_intermediate_size, 96);
  EXPECT_EQ(spec.ropes[1].original_max_position, 12);
  const auto refusal = [](const Json& changes) { return ErrorThrownBy([&] { ReadLlama4(changes); }); };
  EXPECT_THAT(refusal({{"layer_types", {"sliding_attention", "x", "x", "x"}}}),
              HasSubstr("\"sliding_attention\" is not supported"));
  EXPECT_THAT(refusal({{"layer_types", kinds}, {"attention_chunk_size", nullptr}}),
              HasSubstr("attention_chunk_size is missing"));
  EXPECT_THAT(refusal({{"interleave_moe_layer_step", 0}}), HasSubstr("interleave_moe_layer_step = 0"));
  EXPECT_THAT(refusal({{"attention_chunk_size", -8}}), HasSubstr("attention_chunk_size = -8 is out of range"));
  EXPECT_THAT(refusal({{"attention_bias", true}}), HasSubstr("attention_bias = true is not supported"));
}

TEST(ArchitectureTest, ExpertsOfLlama4_AreOneTransposedTensorOrApart_AsTheFileHasThem) {
  ModelSpec spec = ReadLlama4({{"intermediate_size", 40}});
  const auto shape_of = [&](const std::string& name) {
    for (const ExpectedTensor& tensor : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) {
      if (tensor.name == name) return tensor.shape;
    }
    return std::vector<int64_t>();
  };
  using Shape = std::vector<int64_t>;
  const std::string experts = "model.layers.0.feed_forward.experts.";
  EXPECT_EQ(shape_of(experts + "3.gate_proj.weight"), (Shape{40, 64}));
  EXPECT_EQ(shape_of(experts + "gate_up_proj"), Shape());
  TensorMap tensors;
  tensors[experts + "gate_up_proj"];
  ReadLayout(tensors, spec);
  EXPECT_EQ(shape_of(experts + "3.gate_proj.weight"), Shape());
  EXPECT_EQ(shape_of(experts + "gate_up_proj"), (Shape{4, 64, 80}));
  EXPECT_EQ(shape_of(experts + "down_proj"), (Shape{4, 40, 64}));
}

TEST(ArchitectureTest, LayersOfMimoV2_AreReadFromHfsKeysAndFromPublishedKeys) {
  const auto read = [](const Json& changes) {
    Json all = {{"n_routed_experts", 4},
                {"num_experts_per_tok", 2},
                {"moe_intermediate_size", 32},
                {"head_dim", 24},
                {"v_head_dim", 16}};
    all.update(changes);
    return Read("mimo_v2_flash", all);
  };
  const Json ropes = {{"full_attention", {{"rope_theta", 7e6}}}, {"sliding_attention", {{"rope_theta", 9e3}}}};
  const ModelSpec hf = read({{"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                             {"mlp_layer_types", {"sparse", "dense", "sparse"}},
                             {"sliding_window", 33},
                             {"rms_norm_eps", 1e-6},
                             {"rope_parameters", ropes}});
  const ModelSpec published = read({{"hybrid_layer_pattern", {0, 1, 0}},
                                    {"moe_layer_freq", {1, 0, 1}},
                                    {"sliding_window", 32},
                                    {"sliding_window_size", 32},
                                    {"attention_chunk_size", 32},
                                    {"layernorm_epsilon", 1e-6},
                                    {"swa_num_key_value_heads", 4},
                                    {"swa_num_attention_heads", 4},
                                    {"swa_head_dim", 24},
                                    {"swa_v_head_dim", 16},
                                    {"rope_theta", 7e6},
                                    {"swa_rope_theta", 9e3},
                                    {"partial_rotary_factor", 0.334},
                                    {"routed_scaling_factor", nullptr},
                                    {"n_shared_experts", nullptr}});
  EXPECT_EQ(TextOf(published), TextOf(hf));
  EXPECT_EQ(WindowsOf(hf), (std::vector<int64_t>{0, 33, 0}));
  EXPECT_EQ(hf.layers[1].num_kv_heads, 4);
  EXPECT_EQ(hf.layers[2].num_kv_heads, 2);
  EXPECT_EQ(hf.ropes[0].rotated_dims, 8);
  EXPECT_EQ(hf.ropes[1].theta, 9e3);
  EXPECT_TRUE(hf.layers[1].sinks && !hf.layers[0].sinks);
  EXPECT_EQ(hf.scales.attention_out, 0.707);
  EXPECT_EQ(read({{"attention_value_scale", nullptr}}).scales.attention_out, 1);
  for (const ExpectedTensor& tensor : ExpectedTensors(hf, WeightsOf(hf), Naming::kHf)) {
    if (tensor.name == "model.layers.1.self_attn.v_proj.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{64, 64}));
    }
    if (tensor.name == "model.layers.1.self_attn.o_proj.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{64, 64}));
    }
    EXPECT_NE(tensor.name, "model.layers.0.self_attn.attention_sink_bias");
  }
  EXPECT_TRUE(MayBePresent(hf, "model.mtp.layers.0.eh_proj.weight", Naming::kHf));
  const auto refusal = [&](const Json& changes) { return ErrorThrownBy([&] { read(changes); }); };
  EXPECT_THAT(refusal({{"v_head_dim", 30}}), HasSubstr("values of 30 numbers, more than keys have (24)"));
  EXPECT_THAT(refusal({{"swa_head_dim", 16}}), HasSubstr("swa_head_dim other than head_dim is not supported"));
  EXPECT_THAT(refusal({{"n_shared_experts", 1}}), HasSubstr("n_shared_experts is not supported"));
  EXPECT_THAT(refusal({{"hybrid_layer_pattern", {0, 1}}}), HasSubstr("hybrid_layer_pattern lists 2 layers of 3"));
}

TEST(ArchitectureTest, KindOfEachLfm3Layer_FollowsTheLayersNumber_UnlessTheFileListsKinds) {
  const auto kinds_of = [](const Json& changes) {
    std::string kinds;
    for (const LayerSpec& layer : Read("lfm3", changes).layers)
      kinds += layer.has_state() ? 'c' : layer.window > 0 ? 's' : 'f';
    return kinds;
  };
  EXPECT_EQ(kinds_of({{"num_hidden_layers", 9}}), "ccfcscfcs");
  EXPECT_EQ(kinds_of({{"layer_types", {"sliding_attention", "conv", "full_attention"}}}), "scf");
  const ModelSpec spec = Read("lfm3", {{"head_dim", 16}});
  EXPECT_TRUE(spec.gate_by_head && spec.norms_after && spec.tied_embeddings);
  EXPECT_EQ(spec.ropes[0].turning_pairs, 4);
  EXPECT_EQ(spec.ropes[1].theta, 10000);
  EXPECT_FALSE(Read("lfm3", {{"use_attention_gate", false}}).attention_gate);
}

TEST(ArchitectureTest, AlphaOfHunyuan_StretchesTheta_ByTheSizeOfHeads) {
  const auto theta_of = [](const Json& scaling) {
    return Read("hunyuan_v1_dense", {{"head_dim", 32}, {"rope_scaling", scaling}}).ropes[0].theta;
  };
  EXPECT_DOUBLE_EQ(theta_of({{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}}),
                   10000 * std::pow(1000.0, 32.0 / 30.0));
  EXPECT_EQ(theta_of({{"type", "default"}, {"alpha", 1000.0}}), 10000) << "HF reads it with type dynamic only";
}

TEST(ArchitectureTest, MissingKeys_GetTheDefaultsOfTheFamily) {
  const std::tuple<std::string, double, double, int64_t> usual[] = {
      {"llama", 1e-6, 10000, 0},      {"mistral", 1e-6, 10000, 4096},      {"ministral", 1e-6, 10000, 4096},
      {"qwen2", 1e-6, 10000, 0},      {"qwen3", 1e-6, 10000, 0},           {"phi3", 1e-5, 10000, 0},
      {"granite", 1e-6, 10000, 0},    {"smollm3", 1e-6, 2000000, 0},       {"olmo2", 1e-5, 10000, 0},
      {"olmo3", 1e-5, 500000, 4096},  {"gemma", 1e-6, 10000, 0},           {"gemma2", 1e-6, 10000, 4096},
      {"glm", 1.5625e-7, 10000, 0},   {"glm4", 1.5625e-7, 10000, 0},       {"ernie4_5", 1e-5, 500000, 0},
      {"lfm2", 1e-5, 1000000, 0},     {"qwen2_vl_text", 1e-5, 1e6, 0},     {"qwen2_5_vl_text", 1e-5, 1e6, 0},
      {"cohere", 1e-5, 500000, 0},    {"cohere2", 1e-5, 10000, 4096},      {"qwen3_vl_text", 1e-6, 500000, 0},
      {"starcoder2", 1e-5, 10000, 0}, {"seed_oss", 1e-6, 10000, 0},        {"arcee", 1e-5, 10000, 0},
      {"exaone4", 1e-5, 10000, 4096}, {"hunyuan_v1_dense", 1e-5, 10000, 0}};
  for (const auto& [family, epsilon, theta, window] : usual) {
    const ModelSpec spec = Read(family, {{"head_dim", 16}});
    EXPECT_EQ(spec.norm_epsilon, epsilon) << family;
    EXPECT_EQ(spec.ropes[0].theta, theta) << family;
    EXPECT_EQ(spec.layers[0].window, window) << family;
  }
  EXPECT_EQ(Read("mistral", {{"sliding_window", nullptr}}).window(), 0);
  EXPECT_EQ(Read("ministral3", {{"rope_parameters", {{"rope_type", "default"}}}}).norm_epsilon, 1e-5);
}

TEST(ArchitectureTest, MaxPosition_GrowsWithRopeScaling) {
  const auto reach_of = [](const std::string& family, const Json& scaling, int64_t declared) {
    const ModelSpec spec = Read(family, {{"rope_scaling", scaling}, {"max_position_embeddings", declared}});
    return std::pair(spec.max_position, spec.longest_position);
  };
  using Reach = std::pair<int64_t, int64_t>;
  const Json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(reach_of("qwen2", yarn, 32768), Reach(131072, 131072)) << "as model cards say to add it";
  EXPECT_EQ(reach_of("qwen2", yarn, 131072), Reach(131072, 131072)) << "as those files say that have it";
  EXPECT_EQ(reach_of("qwen2", yarn, 40960), Reach(131072, 131072));
  EXPECT_EQ(reach_of("qwen3", {{"rope_type", "yarn"}, {"factor", 4.0}}, 32768), Reach(131072, 131072));
  const Json llama3 = {{"rope_type", "llama3"}, {"factor", 8.0}, {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(reach_of("llama", llama3, 8192), Reach(65536, 65536));
  EXPECT_EQ(reach_of("llama", llama3, 131072), Reach(131072, 131072)) << "further than the scaling itself says";
  EXPECT_EQ(reach_of("llama", llama3, 16384), Reach(16384, 65536)) << "whose file counts the scaling already";
  EXPECT_EQ(reach_of("llama", {{"type", "linear"}, {"factor", 8.0}}, 2048), Reach(2048, 16384))
      << "whether a file means before or after the scaling nobody knows: asked for, it is served";
  EXPECT_EQ(reach_of("gemma3_text", {{"rope_type", "linear"}, {"factor", 8.0}}, 4096), Reach(4096, 4096))
      << "layers with a window are not scaled";
  EXPECT_EQ(reach_of("llama", nullptr, 2048), Reach(2048, 2048));
  EXPECT_EQ(reach_of("llama", {{"type", "linear"}, {"factor", 0.5}}, 2048), Reach(2048, 2048));
}

TEST(ArchitectureTest, HeadDim_IsDerivedOrTheFamilysDefault_WhenItIsMissing) {
  EXPECT_EQ(Read("llama").layers[0].head_dim, 16);
  EXPECT_EQ(Read("qwen2").layers[0].head_dim, 16);
  EXPECT_EQ(Read("qwen3").layers[0].head_dim, 128);
  EXPECT_EQ(Read("qwen3", {{"head_dim", 32}}).layers[0].head_dim, 32);
}

TEST(ArchitectureTest, FamiliesThatDescendFromLlama_ReadTheirOwnKeys_AndRefuseUnsupportedValues) {
  const std::tuple<std::string, Json, std::string> refused[] = {
      {"gemma", {{"hidden_act", "silu"}}, "hidden_act \"silu\""},
      {"gemma", {{"attention_bias", true}}, "attention_bias"},
      {"gemma2", {{"hidden_activation", "silu"}}, "hidden_activation \"silu\""},
      {"gemma2", {{"use_bidirectional_attention", true}}, "use_bidirectional_attention"},
      {"gemma2", {{"attention_bias", true}}, "attention_bias"},
      {"mistral3", Json::object(), "text_config is missing"},
      {"gemma3_text", {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping"},
      {"gemma3_text", {{"rope_parameters", {{"full_attention", {{"rope_type", "dynamic"}}}}}}, "of type dynamic"},
      {"gemma4_text", {{"enable_moe_block", true}}, "num_experts is missing"},
      {"gemma4_text",
       {{"enable_moe_block", true},
        {"num_experts", 4},
        {"top_k_experts", 2},
        {"moe_intermediate_size", 24},
        {"use_double_wide_mlp", true},
        {"num_kv_shared_layers", 1},
        {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}},
       "experts beside MLPs of several sizes, 96 and 192"},
      {"gemma4_text", {{"use_bidirectional_attention", "all"}}, "use_bidirectional_attention \"all\""},
      {"gemma4_text", {{"vocab_size_per_layer_input", 50}}, "vocab_size_per_layer_input = 50 and vocab_size = 100"},
      {"gemma4_text", {{"num_kv_shared_layers", 3}}, "num_kv_shared_layers = 3 of 3 layers"},
      {"gemma4_text", {{"num_kv_shared_layers", 1}}, "layer 2 reads keys of an earlier layer of its kind"},
      {"gemma4_text", {{"sliding_window", 0}}, "sliding_window = 0"},
      {"gemma4_text", {{"per_layer_config", {{"3", {{"head_dim", 32}}}}}}, "per_layer_config: 3 is not supported"},
      {"gemma4_text", {{"per_layer_config", {{"2", {{"rope_theta", 32}}}}}}, "per_layer_config: 2: rope_theta"},
      {"gemma4_text", {{"per_layer_config", {{"1", {{"head_dim", 32}}}}}}, "rotate alike have heads of several sizes"},
      {"gemma4_text",
       {{"num_kv_shared_layers", 1},
        {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
        {"per_layer_config", {{"2", {{"head_dim", 32}}}}}},
       "layer 2 has other heads than layer 0, whose keys it reads"},
      {"gemma4_text",
       {{"rope_parameters", {{"sliding_attention", {{"rope_theta", 9.0}}}}}},
       "full_attention is missing"},
      {"phimoe", {{"num_local_experts", 4}, {"num_experts_per_tok", 3}}, "SparseMixer chooses 2"},
      {"phimoe",
       {{"num_local_experts", 4},
        {"num_experts_per_tok", 2},
        {"rope_scaling",
         {{"type", "longrope"},
          {"short_mscale", 1.0},
          {"long_mscale", 1.5},
          {"short_factor", {1.0}},
          {"long_factor", {1.0}}}}},
       "long_mscale"},
      {"phimoe",
       {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
       "longrope"},
      {"ernie4_5", {{"use_bias", true}}, "use_bias"},
      {"ernie4_5_moe", {{"moe_norm_min", 0.5}}, "moe_norm_min"},
      {"ernie4_5_moe", {{"moe_layer_interval", 0}}, "each 0-th layer"},
      {"minimax_m2",
       {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"use_qk_norm", false}},
       "use_qk_norm = false"},
      {"minimax_m2", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"rotary_dim", 200}}, "rotary_dim = 200"},
      {"minimax_m2",
       {{"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"scoring_func", "softmax"}},
       "scoring_func \"softmax\""},
      {"dots1",
       {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}},
       "n_shared_experts is missing"},
      {"phi3", {{"lm_head_bias", true}}, "lm_head_bias"},
      {"phi3", {{"partial_rotary_factor", 1.5}}, "partial_rotary_factor of 1.5"},
      {"phi3", {{"rope_scaling", {{"type", "su"}, {"short_factor", {1.0}}}}}, "long_factor is missing"},
      {"phi3",
       {{"rope_scaling", {{"type", "su"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}}},
       "1 factors for 8 frequencies"},
      {"granite", {{"logits_scaling", 0}}, "divided by 0"},
      {"granite", {{"num_local_experts", 4}}, "num_local_experts"},
      {"olmo2", {{"clip_qkv", 8.0}}, "clip_qkv"},
      {"seed_oss", {{"mlp_bias", true}}, "mlp_bias"},
      {"arcee", {{"hidden_act", "silu"}}, "hidden_act \"silu\" is not supported; supported: relu2"},
      {"arcee", {{"mlp_bias", true}}, "mlp_bias"},
      {"exaone_moe",
       {{"num_experts", 4},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", 32},
        {"mlp_layer_types", {"dense", "sparse"}}},
       "mlp_layer_types lists 2 layers of 3"},
      {"exaone_moe",
       {{"num_experts", 4},
        {"num_experts_per_tok", 2},
        {"moe_intermediate_size", 32},
        {"mlp_layer_types", {"dense", "sparse", "x"}}},
       "mlp_layer_types: \"x\" is not supported"},
      {"hy_v3",
       {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"first_k_dense_replace", 2}},
       "first_k_dense_replace = 2 without mlp_layer_types"},
      {"hunyuan_v1_moe", {{"num_experts", 4}, {"moe_topk", {2, 2, 3}}}, "moe_topk must be the same for all layers"},
      {"hunyuan_v1_moe",
       {{"num_experts", 4}, {"moe_topk", 2}, {"num_shared_expert", {2, 2, 2}}},
       "num_shared_expert = 2"},
      {"cwm", Json::object(), "rope_parameters is missing"},
      {"lfm3", {{"layer_types", {"conv", "x", "full_attention"}}}, "\"x\" is not supported"},
      {"lfm3", {{"conv_bias", true}}, "conv_bias"},
      {"exaone4", {{"sliding_window_pattern", 0}}, "sliding_window_pattern = 0"},
      {"exaone4", {{"sliding_window_pattern", "LLLG"}}, "sliding_window_pattern must be an integer"},
      {"hunyuan_v1_dense", {{"num_experts", 8}}, "num_experts = 8"},
      {"hunyuan_v1_dense", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, "of type dynamic"},
      {"hunyuan_v1_dense", {{"rope_scaling", {{"type", "dynamic"}, {"alpha", -1.0}}}}, "alpha = -1"},
      {"smollm3", {{"no_rope_layers", {1, 1}}}, "2 layers of 3"},
      {"mistral",
       {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}, {"llama_4_scaling_beta", 0.1}}}},
       "llama_4_scaling_beta"},
      {"mistral", {{"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}, "layer_types"},
      {"ministral3", Json::object(), "rope_parameters is missing"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}, {"beta_fast", 1}, {"beta_slow", 3}}}},
       "beta_fast"},
  };
  for (const auto& [family, changes, reason] : refused) {
    const std::string error = ErrorThrownBy([&] { Read(family, changes); });
    EXPECT_THAT(error, AllOf(HasSubstr(reason), Not(HasSubstr("\n")))) << family;
  }
  EXPECT_EQ(WindowsOf(Read("gemma2", {{"sliding_window", 24}})), (std::vector<int64_t>{24, 0, 24}));
  EXPECT_EQ(Read("gemma2").score_cap, 50) << "where the file is silent";
  EXPECT_EQ(Read("gemma2", {{"attn_logit_softcapping", nullptr}}).score_cap, 0);
  EXPECT_EQ(
      WindowsOf(Read("smollm3", {{"no_rope_layer_interval", 2}, {"use_sliding_window", true}, {"sliding_window", 24}})),
      (std::vector<int64_t>{0, 24, 0}))
      << "of the layers that do not rotate";
  EXPECT_EQ(Read("smollm3", {{"no_rope_layers", {1, 0, 1}}}).layers[1].rope, -1);
  const Json full = {{"layer_types", {"full_attention", "full_attention", "full_attention"}}};
  EXPECT_EQ(TextOf(Read("llama", full)), TextOf(Read("llama")));
  const ModelSpec local = Read("gemma3_text", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}},
                                               {"rope_local_base_freq", 500},
                                               {"sliding_window_pattern", 3}});
  EXPECT_EQ(local.ropes[0].factor, 8);
  EXPECT_EQ(local.ropes[1].theta, 500);
  EXPECT_EQ(local.ropes[1].factor, 1);
  EXPECT_EQ(local.layers[2].rope, 0);
  EXPECT_EQ(local.layers[1].rope, 1);
}

TEST(ArchitectureTest, Gemma4_HasHeadsOfTwoSizes_AndLayersThatReadKeysOfOtherLayers) {
  const Json kinds = {"sliding_attention", "full_attention", "sliding_attention", "full_attention",
                      "sliding_attention"};
  const ModelSpec small = Read("gemma4_text", {{"num_hidden_layers", 5},
                                               {"layer_types", kinds},
                                               {"sliding_window", 24},
                                               {"num_kv_shared_layers", 2},
                                               {"use_double_wide_mlp", true},
                                               {"hidden_size_per_layer_input", 16}});
  EXPECT_EQ(WindowsOf(small), (std::vector<int64_t>{24, 0, 24, 0, 0})) << "the last layer sees all";
  const auto of_layers = [](const ModelSpec& spec, int64_t LayerSpec::*what) {
    std::vector<int64_t> values;
    for (const LayerSpec& layer : spec.layers) values.push_back(layer.*what);
    return values;
  };
  EXPECT_EQ(of_layers(small, &LayerSpec::head_dim), (std::vector<int64_t>{256, 512, 256, 512, 512}));
  EXPECT_EQ(of_layers(small, &LayerSpec::kv_from_layer), (std::vector<int64_t>{-1, -1, -1, 1, 1}));
  EXPECT_EQ(of_layers(small, &LayerSpec::intermediate_size), (std::vector<int64_t>{96, 96, 96, 192, 192}));
  EXPECT_EQ(RotatedDims(small, 0), 512);
  EXPECT_EQ(small.ropes[0].turning_pairs, 64);
  const std::vector<float> frequencies = RopeFrequencies(small.ropes[0], 512, 512);
  EXPECT_GT(frequencies[63], 0);
  EXPECT_EQ(frequencies[64], 0);

  const ModelSpec large = Read("gemma4_text", {{"num_hidden_layers", 5},
                                               {"layer_types", kinds},
                                               {"attention_k_eq_v", true},
                                               {"global_head_dim", 64},
                                               {"num_global_key_value_heads", 1},
                                               {"hidden_size_per_layer_input", 0}});
  EXPECT_EQ(of_layers(large, &LayerSpec::num_kv_heads), (std::vector<int64_t>{2, 1, 2, 1, 1}));
  EXPECT_EQ(of_layers(large, &LayerSpec::head_dim), (std::vector<int64_t>{256, 64, 256, 64, 64}));
  std::set<std::string> names;
  for (const ExpectedTensor& tensor : ExpectedTensors(large, WeightsOf(large), Naming::kHf)) names.insert(tensor.name);
  EXPECT_TRUE(names.contains("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_FALSE(names.contains("model.layers.1.self_attn.v_proj.weight")) << "values are keys";
  EXPECT_FALSE(names.contains("model.embed_tokens_per_layer.weight"));
  EXPECT_EQ(LayerNumbersPerUnit(large, Axis::kKeyValues), (std::vector<int64_t>{128, 128, 128, 128, 128}))
      << "keys that are values, too, are read twice";

  const ModelSpec by_layer = Read("gemma4_text", {{"per_layer_config", {{"2", {{"head_dim", 32}}}}}});
  EXPECT_EQ(of_layers(by_layer, &LayerSpec::head_dim), (std::vector<int64_t>{256, 256, 32})) << "and not 512";
}

// Hosts compare these texts: hosts whose model files differ in any field must not compute together.
TEST(ArchitectureTest, DescriptionOfAModelSpec_ChangesWithEveryField) {
  const ModelSpec plain = Read("llama");
  const std::function<void(ModelSpec&)> changes[] = {
      [](ModelSpec& s) { s.architecture = "mistral"; },
      [](ModelSpec& s) { ++s.hidden_size; },
      [](ModelSpec& s) { ++s.num_heads; },
      [](ModelSpec& s) { ++s.layers[2].num_kv_heads; },
      [](ModelSpec& s) { ++s.layers[2].head_dim; },
      [](ModelSpec& s) { ++s.layers[2].intermediate_size; },
      [](ModelSpec& s) { s.layers[2].kv_from_layer = 0; },
      [](ModelSpec& s) { s.layers[2].values_are_keys = true; },
      [](ModelSpec& s) { s.value_norm = true; },
      [](ModelSpec& s) { ++s.latent.rank; },
      [](ModelSpec& s) { ++s.latent.query_rank; },
      [](ModelSpec& s) { ++s.latent.key_dim; },
      [](ModelSpec& s) { ++s.latent.rotated_dim; },
      [](ModelSpec& s) { ++s.latent.value_dim; },
      [](ModelSpec& s) { s.latent.norm_epsilon = 1e-3; },
      [](ModelSpec& s) { s.latent.by_head = true; },
      [](ModelSpec& s) { s.layer_scales = true; },
      [](ModelSpec& s) { s.layer_input_size = 8; },
      [](ModelSpec& s) { s.ropes[0].turning_pairs = 8; },
      [](ModelSpec& s) { ++s.vocab_size; },
      [](ModelSpec& s) { ++s.max_position; },
      [](ModelSpec& s) { s.norm_epsilon *= 2; },
      [](ModelSpec& s) { s.ropes[0].rotated_dims = 8; },
      [](ModelSpec& s) { s.ropes[0].theta += 1e-9; },
      [](ModelSpec& s) { s.ropes[0].factor = 2; },
      [](ModelSpec& s) { s.ropes[0].scaling = RopeScaling::kLlama3; },
      [](ModelSpec& s) { s.ropes[0].low_frequency_factor = 2; },
      [](ModelSpec& s) { s.ropes[0].high_frequency_factor = 5; },
      [](ModelSpec& s) { s.ropes[0].original_max_position = 5; },
      [](ModelSpec& s) { s.ropes[0].divisors = {1}; },
      [](ModelSpec& s) { s.ropes[0].long_divisors = {1}; },
      [](ModelSpec& s) { s.ropes[0].attention_factor = 2; },
      [](ModelSpec& s) { s.ropes[0].beta_fast = 2; },
      [](ModelSpec& s) { s.ropes[0].beta_slow = 2; },
      [](ModelSpec& s) { s.ropes[0].truncate = false; },
      [](ModelSpec& s) { s.ropes[0].query_growth = 0.1; },
      [](ModelSpec& s) { s.ropes.push_back(s.ropes[0]); },
      [](ModelSpec& s) { s.tied_embeddings = true; },
      [](ModelSpec& s) { s.qkv_bias = true; },
      [](ModelSpec& s) { s.qk_norm = QkNorm::kHeads; },
      [](ModelSpec& s) { s.qk_norm = QkNorm::kWhole; },
      [](ModelSpec& s) { s.norms_before = false; },
      [](ModelSpec& s) { s.norms_after = true; },
      [](ModelSpec& s) { s.norms_add_one = true; },
      [](ModelSpec& s) { s.embedding_scale = 2; },
      [](ModelSpec& s) { s.attention_scale = 2; },
      [](ModelSpec& s) { s.residual_scale = 2; },
      [](ModelSpec& s) { s.logit_scale = 2; },
      [](ModelSpec& s) { s.score_cap = 2; },
      [](ModelSpec& s) { s.logit_cap = 2; },
      [](ModelSpec& s) { s.norm = NormKind::kLayer; },
      [](ModelSpec& s) { s.norm_bias = true; },
      [](ModelSpec& s) { s.embedding_norm = true; },
      [](ModelSpec& s) { s.out_bias = true; },
      [](ModelSpec& s) { s.mlp_bias = true; },
      [](ModelSpec& s) { s.head_bias = true; },
      [](ModelSpec& s) { s.gated_mlp = false; },
      [](ModelSpec& s) { s.activation = Activation::kGelu; },
      [](ModelSpec& s) { s.parallel_block = true; },
      [](ModelSpec& s) { s.shared_norm = true; },
      [](ModelSpec& s) { s.position = Position::kAlibi; },
      [](ModelSpec& s) { s.position_offset = 2; },
      [](ModelSpec& s) { s.alibi_max_bias = 16; },
      [](ModelSpec& s) { s.relative_bias.buckets = 32; },
      [](ModelSpec& s) { s.relative_bias.reach = 64; },
      [](ModelSpec& s) { s.pooled_head.sparse = true; },
      [](ModelSpec& s) { s.pooled_head.colbert = 8; },
      [](ModelSpec& s) { s.fused_by_head = true; },
      [](ModelSpec& s) { s.transposed = true; },
      [](ModelSpec& s) { s.interleaved_rope_rows = true; },
      [](ModelSpec& s) { s.layers.pop_back(); },
      [](ModelSpec& s) { s.layers[1].mixture = true; },
      [](ModelSpec& s) { s.mixture.experts = 4; },
      [](ModelSpec& s) { s.mixture.experts_per_token = 4; },
      [](ModelSpec& s) { s.mixture.intermediate_size = 4; },
      [](ModelSpec& s) { s.mixture.shared_intermediate_size = 4; },
      [](ModelSpec& s) { s.mixture.shared_gate = true; },
      [](ModelSpec& s) { s.mixture.score = RouterScore::kSigmoid; },
      [](ModelSpec& s) { s.mixture.tolerance = 0.5; },
      [](ModelSpec& s) { s.mixture.renormalize = true; },
      [](ModelSpec& s) { s.mixture.scale = 2; },
      [](ModelSpec& s) { s.mixture.expert_scales = true; },
      [](ModelSpec& s) { s.mixture.normed_apart = true; },
      [](ModelSpec& s) { s.mixture.router_bias = true; },
      [](ModelSpec& s) { s.mixture.correction_bias = true; },
      [](ModelSpec& s) { s.mixture.expert_biases = true; },
      [](ModelSpec& s) { s.mixture.file_rows = GateUpRows::kInOrder; },
      [](ModelSpec& s) { s.gate_limit = 7; },
      [](ModelSpec& s) { s.attention_sinks = true; },
      [](ModelSpec& s) { s.mixture.groups = 2; },
      [](ModelSpec& s) { s.mixture.groups_per_token = 2; },
      [](ModelSpec& s) { s.layers[1].window = 8; },
      [](ModelSpec& s) { s.layers[1].chunk = 8; },
      [](ModelSpec& s) { s.layers[1].value_dim = 8; },
      [](ModelSpec& s) { s.layers[1].sinks = false; },
      [](ModelSpec& s) { s.layers[1].qk_norm = false; },
      [](ModelSpec& s) { s.qk_norm_plain = true; },
      [](ModelSpec& s) { s.ropes[0].growth_offset = 1; },
      [](ModelSpec& s) { s.mixture.weighs_inputs = true; },
      [](ModelSpec& s) { s.scales.attention_out = 2; },
      [](ModelSpec& s) { s.scales.state_out = 2; },
      [](ModelSpec& s) { s.scales.mlp_out = 2; },
      [](ModelSpec& s) { s.scales.mlp_gate = 2; },
      [](ModelSpec& s) { s.scales.state_query = 2; },
      [](ModelSpec& s) { s.scales.state_key = 2; },
      [](ModelSpec& s) { s.scales.state_value = 2; },
      [](ModelSpec& s) { s.scales.state_gate = 2; },
      [](ModelSpec& s) { s.scales.state_decay = 2; },
      [](ModelSpec& s) { s.layers[1].rope = -1; },
      [](ModelSpec& s) { s.eos_token_ids = {7}; },
  };
  std::set<std::string> texts = {TextOf(plain)};
  for (const auto& change : changes) {
    ModelSpec other = plain;
    change(other);
    EXPECT_TRUE(texts.insert(TextOf(other)).second) << TextOf(other);
  }
}

TEST(ArchitectureTest, AlibiSlopes_EqualThePapersSlopes) {
  const auto slopes_of = [](int64_t heads, double max_bias) {
    ModelSpec spec;
    spec.num_heads = heads;
    spec.position = Position::kAlibi;
    spec.alibi_max_bias = max_bias;
    return AlibiSlopes(spec);
  };
  EXPECT_THAT(slopes_of(1, 8), testing::ElementsAre(0x1p-8f));
  EXPECT_THAT(slopes_of(4, 8), testing::ElementsAre(0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f));
  EXPECT_THAT(slopes_of(6, 8), testing::ElementsAre(0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f, 0x1p-1f, 0x1p-3f));
  EXPECT_THAT(slopes_of(2, 16), testing::ElementsAre(0x1p-8f, 0x1p-16f));
  EXPECT_TRUE(AlibiSlopes(Read("llama")).empty());
}

TEST(ArchitectureTest, BucketsOfDistances_GrowWithTheDistance_OnBothSides) {
  const std::vector<int64_t> buckets = BucketsOfDistances({.buckets = 32, .reach = 128});
  ASSERT_EQ(buckets.size(), 257U);
  const auto at = [&](int64_t distance) { return buckets[static_cast<size_t>(distance + 128)]; };
  for (int64_t distance = 0; distance < 8; ++distance) EXPECT_EQ(at(-distance), distance) << "one distance each";
  EXPECT_EQ(at(1), 17) << "keys after the query have the other half";
  EXPECT_EQ(at(-16), 10);
  EXPECT_EQ(at(-64), 14);
  EXPECT_EQ(at(-128), 15);
  EXPECT_EQ(at(128), 31);
  for (int64_t distance = 1; distance <= 128; ++distance) {
    EXPECT_EQ(at(distance), at(-distance) + 16);
    EXPECT_LE(at(-(distance - 1)), at(-distance));
  }
}

TEST(ArchitectureTest, RowsOfFusedWeights_AreInOrderOrGroupedByHead) {
  ModelSpec spec = Read("llama");  // 4 query heads and 2 key and value heads, of size 16
  const auto places = [&](Fusion fusion) {
    std::vector<WeightSpec> weights;
    for (const auto& [role, axis] :
         {std::pair{Role::kQuery, Axis::kQueries}, {Role::kKey, Axis::kKeyValues}, {Role::kValue, Axis::kKeyValues}}) {
      weights.push_back({.role = role, .hf = "qkv", .rows = axis, .cols = Axis::kHidden, .fusion = fusion});
    }
    std::vector<std::vector<int64_t>> rows;
    for (const WeightSpec& weight : weights) {
      const RowPlaces in_tensor = PlacesOf(spec, weights, weight, 0, Naming::kHf);
      EXPECT_EQ(in_tensor.total, 128);
      rows.emplace_back();
      for (int64_t row = 0; row < Extent(spec, weight.rows, 0); ++row) rows.back().push_back(in_tensor.Of(row));
    }
    return rows;
  };
  const auto in_order = places(Fusion::kInOrder), by_head = places(Fusion::kByKvHead);
  EXPECT_EQ(in_order[0][63], 63);
  EXPECT_EQ(in_order[1][0], 64);
  EXPECT_EQ(in_order[2][31], 127);
  EXPECT_EQ(by_head[0][31], 31);
  EXPECT_EQ(by_head[0][32], 64);
  EXPECT_EQ(by_head[1][0], 32);
  EXPECT_EQ(by_head[1][16], 96);
  EXPECT_EQ(by_head[2][31], 127);
}

/// Opens a copy of a golden model whose configuration has these changes; returns the error, or "".
std::string OpenError(const std::string& model, const Json& changes) {
  const TemporaryDirectory folder;
  const fs::path from = fs::path(QUIRE_TEST_DATA) / "models" / model, to = fs::path(folder.path()) / model;
  fs::copy(from, to);
  Json config = Json::parse(ReadTextFile(from / "config.json", 1 << 20));
  config.update(changes);
  WriteTextFile(to / "config.json", config.dump());
  return ErrorThrownBy([&] { ModelFiles::Open(to); });
}

/// Reads a minimal configuration of a family with LayerNorm. Families name sizes differently, so each size is set under
/// every name.
ModelSpec ReadLayerNorm(const std::string& family, const Json& changes = Json::object()) {
  Json config = {{"model_type", family}, {"vocab_size", 100}, {"intermediate_size", 96}, {"ffn_dim", 96}};
  for (const char* key : {"hidden_size", "d_model", "n_embd"}) config[key] = 64;
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers"}) config[key] = 3;
  for (const char* key : {"num_attention_heads", "n_head", "n_heads"}) config[key] = 4;
  if (family == "cohere" || family == "cohere2" || family == "stablelm") config["max_position_embeddings"] = 512;
  config.update(changes);
  return SpecFromHf(config.dump(), "", "config.json");
}

TEST(ArchitectureTest, FamiliesWithLayerNorm_RefuseUnsupportedKeysByName) {
  const std::tuple<std::string, Json, std::string> cases[] = {
      {"bloom",
       {{"apply_residual_connection_post_layernorm", true}},
       "apply_residual_connection_post_layernorm = true"},
      {"mpt", {{"attn_config", {{"clip_qkv", 8}}}}, "attn_config: clip_qkv = 8"},
      {"mpt", {{"attn_config", {{"qk_ln", true}}}}, "attn_config: qk_ln = true"},
      {"mpt", {{"attn_config", {{"alibi", false}}}}, "alibi = false"},
      {"mpt", {{"attn_config", {{"alibi_bias_max", 16}}}}, "alibi_bias_max = 16"},
      {"mpt", {{"attn_config", {{"attn_type", "multiquery_attention"}}}}, "attn_type multiquery_attention"},
      {"mpt", {{"no_bias", false}}, "no_bias = false"},
      {"mpt", {{"expansion_ratio", 3}}, "expansion_ratio = 3"},
      {"gpt_neox", {{"hidden_act", "quick_gelu"}}, "hidden_act = \"quick_gelu\""},
      {"gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, "scale_attn_by_inverse_layer_idx = true"},
      {"gpt2", {{"scale_attn_weights", false}}, "scale_attn_weights = false"},
      {"gpt2", {{"add_cross_attention", true}}, "add_cross_attention = true"},
      {"opt", {{"do_layer_norm_before", false}}, "do_layer_norm_before = false"},
      {"opt", {{"_remove_final_layer_norm", true}}, "_remove_final_layer_norm = true"},
      {"opt", {{"word_embed_proj_dim", 32}}, "word_embed_proj_dim = 32"},
      {"falcon", {{"alibi", true}}, "alibi = true"},
      {"falcon", {{"new_decoder_architecture", true}, {"parallel_attn", false}}, "without parallel_attn"},
      {"cohere", {{"use_qk_norm", true}}, "use_qk_norm = true"},
      {"phi", {{"qk_layernorm", true}}, "qk_layernorm = true"},
      {"stablelm", {{"qk_layernorm", true}}, "qk_layernorm = true"},
  };
  for (const auto& [family, changes, reason] : cases) {
    EXPECT_NO_THROW(ReadLayerNorm(family));
    const Json& all = changes;
    const std::string& name = family;
    EXPECT_THAT(ErrorThrownBy([&] { ReadLayerNorm(name, all); }), AllOf(HasSubstr(reason), HasSubstr("not supported")));
  }
}

TEST(ArchitectureTest, Encoders_RefuseUnsupportedValuesByName) {
  const auto error = [](const char* family, const Json& changes) {
    return ErrorThrownBy([&] { Read(family, changes); });
  };
  const Json nomic = {{"n_inner", 96}}, jina = {{"position_embedding_type", "alibi"}, {"feed_forward_type", "geglu"}};
  const auto with = [](Json config, const char* key, const Json& value) {
    config[key] = value;
    return config;
  };
  EXPECT_THAT(error("nomic_bert", with(nomic, "prenorm", true)), HasSubstr("prenorm = true"));
  EXPECT_THAT(error("nomic_bert", with(nomic, "rotary_scaling_factor", 2)), HasSubstr("rotary_scaling_factor"));
  EXPECT_THAT(error("nomic_bert", with(nomic, "rotary_emb_fraction", 0.5)), HasSubstr("rotary_emb_fraction"));
  EXPECT_THAT(error("nomic_bert", with(nomic, "activation_function", "gelu")), HasSubstr("activation_function"));
  EXPECT_THAT(error("nomic_bert", with(nomic, "num_experts", 8)), HasSubstr("num_experts"));
  EXPECT_THAT(error("nomic_bert", with(nomic, "n_embd", 128)), HasSubstr("contradict"));
  EXPECT_THAT(error("new", {{"pack_qkv", false}}), HasSubstr("pack_qkv"));
  EXPECT_THAT(error("new", {{"layer_norm_type", "rms_norm"}}), HasSubstr("layer_norm_type"));
  EXPECT_THAT(error("new", {{"position_embedding_type", "absolute"}}), HasSubstr("position_embedding_type"));
  EXPECT_THAT(error("new", {{"rope_scaling", {{"type", "ntk"}, {"factor", 2}, {"mixed_b", 1}}}}), HasSubstr("mixed_b"));
  EXPECT_THAT(error("mpnet", {{"relative_attention_num_buckets", 6}}), HasSubstr("buckets"));
  EXPECT_THAT(error("electra", {{"embedding_size", 32}}), HasSubstr("embedding_size"));
  EXPECT_THAT(error("bert", with(jina, "feed_forward_type", "original")), HasSubstr("feed_forward_type"));
  EXPECT_EQ(Read("bert", jina).position, Position::kAlibi);
  EXPECT_EQ(Read("new", {{"rope_theta", 1000}, {"rope_scaling", {{"type", "ntk"}, {"factor", 2}}}}).ropes[0].theta,
            2000);
}

TEST(ArchitectureTest, VariantsOfFalconAndCohere_FollowTheirFlags) {
  const auto norms_of = [](const ModelSpec& spec) {
    std::set<std::string> names;
    for (const WeightSpec& weight : WeightsOf(spec)) {
      if (weight.role == Role::kAttentionNorm || weight.role == Role::kMlpNorm) names.insert(weight.hf);
    }
    return names;
  };
  const ModelSpec small = ReadLayerNorm("falcon"),
                  large = ReadLayerNorm("falcon", {{"new_decoder_architecture", true}}),
                  first = ReadLayerNorm("falcon", {{"parallel_attn", false}, {"multi_query", false}, {"bias", true}});
  EXPECT_EQ(small.layers[0].num_kv_heads, 1);
  EXPECT_EQ(first.layers[0].num_kv_heads, 4);
  EXPECT_TRUE(small.shared_norm && small.parallel_block && large.parallel_block && !large.shared_norm);
  EXPECT_FALSE(first.parallel_block);
  EXPECT_THAT(norms_of(small), testing::ElementsAre("transformer.h.{}.input_layernorm.weight"));
  EXPECT_THAT(norms_of(large),
              testing::ElementsAre("transformer.h.{}.ln_attn.weight", "transformer.h.{}.ln_mlp.weight"));
  EXPECT_THAT(norms_of(first), testing::ElementsAre("transformer.h.{}.input_layernorm.weight",
                                                    "transformer.h.{}.post_attention_layernorm.weight"));
  EXPECT_TRUE(norms_of(ReadLayerNorm("falcon", {{"new_decoder_architecture", true}, {"num_ln_in_parallel_attn", 1}})) ==
              norms_of(small));

  const ModelSpec second = ReadLayerNorm("cohere2", {{"num_hidden_layers", 5}, {"sliding_window", 24}});
  EXPECT_EQ(WindowsOf(second), (std::vector<int64_t>{24, 24, 24, 0, 24}));
  for (const LayerSpec& layer : second.layers) EXPECT_EQ(layer.rope, layer.window > 0 ? 0 : -1);
}

/// Opens a copy of a golden model: tensor names lose the prefix `cut`, and the tensors `more` are added. Returns the
/// error, or "".
std::string OpenRenamed(const std::string& model, const std::string& cut, const std::map<std::string, Json>& more) {
  const TemporaryDirectory folder;
  const fs::path from = fs::path(QUIRE_TEST_DATA) / "models" / model, to = fs::path(folder.path()) / model;
  fs::copy(from, to);
  std::string bytes = ReadTextFile(to / "model.safetensors", 1 << 20);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  Json header = Json::object();
  const Json old = Json::parse(bytes.substr(8, length));
  for (const auto& [name, entry] : old.items()) {
    header[name.starts_with(cut) ? name.substr(cut.size()) : name] = entry;
  }
  std::string data = bytes.substr(8 + length);
  for (const auto& [name, entry] : more) {
    header[name] = entry;
    header[name]["data_offsets"] = {data.size(), data.size() + 4};
    data += std::string(4, '\0');
  }
  const std::string text = header.dump();
  length = text.size();
  std::string head(8, '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  WriteTextFile(to / "model.safetensors", head + text + data);
  return ErrorThrownBy([&] { ModelFiles::Open(to); });
}

TEST(ArchitectureTest, Gemma4Files_MayHoldTensors_ThatTheTextModelDoesNotUse) {
  const Json floats = {{"dtype", "F32"}, {"shape", {1}}};
  const std::string layers = "model.language_model.layers.";
  EXPECT_EQ(OpenRenamed("gemma4whole", "", {{"model.vision_tower.x", floats}, {"model.embed_audio.x", floats}}), "");
  EXPECT_EQ(OpenRenamed("gemma4whole", "", {{layers + "2.self_attn.k_proj.weight", floats}}), "")
      << "layer 2 reads the keys of layer 0";
  EXPECT_THAT(OpenRenamed("gemma4whole", "", {{layers + "1.self_attn.k_bias", floats}}),
              HasSubstr("unexpected: model.layers.1.self_attn.k_bias"));
  EXPECT_EQ(OpenRenamed("gemma4", "", {{"model.layers.5.self_attn.v_proj.weight", floats}}), "");
  EXPECT_THAT(OpenRenamed("gemma4", "", {{"model.vision_tower.x", floats}}), HasSubstr("unexpected: model.vision"));
  EXPECT_THAT(OpenRenamed("gemma4large", "", {{"model.layers.1.self_attn.v_proj.weight", floats}}),
              HasSubstr("unexpected: model.layers.1.self_attn.v_proj"))
      << "its values are its keys";
}

/// Reads the configuration of a GGUF file of Gemma 4 with these changes. The file has only the tensors that this
/// reading needs.
ModelSpec Gemma4OfGguf(const std::map<std::string, GgufValue>& changes, std::vector<float> divisors) {
  GgufFile gguf{{}, {}, "file.gguf"};
  gguf.metadata = {{"general.architecture", "gemma4"},
                   {"tokenizer.ggml.tokens", std::vector<std::string>{"<pad>", "<eos>", "a", "<turn|>"}},
                   {"tokenizer.ggml.eos_token_id", int64_t{1}}};
  const std::map<std::string, GgufValue> usual = {
      {"context_length", int64_t{512}},
      {"embedding_length", int64_t{64}},
      {"block_count", int64_t{4}},
      {"feed_forward_length", std::vector<int64_t>{96, 96, 192, 192}},
      {"attention.head_count", int64_t{4}},
      {"attention.head_count_kv", std::vector<int64_t>{2, 1, 2, 1}},
      {"attention.key_length", int64_t{16}},
      {"attention.value_length", int64_t{16}},
      {"attention.key_length_swa", int64_t{8}},
      {"attention.value_length_swa", int64_t{8}},
      {"attention.layer_norm_rms_epsilon", 1e-6},
      {"attention.sliding_window", int64_t{24}},
      {"attention.sliding_window_pattern", std::vector<int64_t>{1, 0, 1, 0}},
      {"attention.shared_kv_layers", int64_t{2}},
      {"rope.dimension_count", int64_t{16}},
      {"rope.dimension_count_swa", int64_t{8}},
      {"rope.freq_base", 1e6},
  };
  for (const auto* values : {&usual, &changes}) {
    for (const auto& [key, value] : *values) gguf.metadata["gemma4." + key] = value;
  }
  const auto bytes = std::as_bytes(std::span(divisors));
  if (!divisors.empty())
    gguf.tensors["rope_freqs.weight"] = {NumberType::kF32, {static_cast<int64_t>(divisors.size())}, bytes};
  for (const char* name : {"blk.0.attn_v.weight", "blk.0.ffn_gate_inp.weight"}) gguf.tensors[name] = {};
  return SpecFromGguf(gguf);
}

TEST(ArchitectureTest, Gemma4FromGguf_ReadsTheSettingsOfEachLayer_WhenLayersDiffer) {
  const std::vector<float> quarter = {1, 1, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f};
  const ModelSpec spec = Gemma4OfGguf({}, quarter);
  EXPECT_EQ(WindowsOf(spec), (std::vector<int64_t>{24, 0, 24, 0}));
  EXPECT_EQ(spec.layers[0].head_dim, 8);
  EXPECT_EQ(spec.layers[1].head_dim, 16);
  EXPECT_EQ(spec.layers[1].num_kv_heads, 1);
  EXPECT_TRUE(spec.layers[1].values_are_keys) << "the file has no values of it";
  EXPECT_FALSE(spec.layers[0].values_are_keys);
  EXPECT_EQ(spec.layers[3].kv_from_layer, 1);
  EXPECT_EQ(spec.layers[3].intermediate_size, 192);
  EXPECT_EQ(spec.ropes[0].turning_pairs, 2);
  EXPECT_EQ(spec.ropes[1].theta, 10000);
  EXPECT_EQ(spec.eos_token_ids, (std::vector<TokenId>{1, 3})) << "the end of a turn, too";
  EXPECT_TRUE(MayBePresent(spec, "blk.2.attn_k.weight", Naming::kGguf)) << "keys that nobody reads";
  EXPECT_FALSE(MayBePresent(spec, "blk.1.attn_v.weight", Naming::kGguf));

  EXPECT_THAT(ErrorThrownBy([] { Gemma4OfGguf({}, {}); }), HasSubstr("rope_freqs.weight is missing"));
  EXPECT_THAT(ErrorThrownBy([] { Gemma4OfGguf({}, {1, 1e30f, 1, 1, 1, 1, 1, 1}); }), HasSubstr("turn behind others"));
  EXPECT_THAT(ErrorThrownBy([&] {
                Gemma4OfGguf({{"attention.value_length_swa", int64_t{4}}}, quarter);
              }),
              HasSubstr("values of another length"));
  EXPECT_THAT(ErrorThrownBy([&] {
                Gemma4OfGguf({{"attention.shared_kv_layers", int64_t{4}}}, quarter);
              }),
              HasSubstr("attention.shared_kv_layers = 4 of 4 layers"));
  EXPECT_THAT(ErrorThrownBy([&] {
                Gemma4OfGguf({{"expert_count", int64_t{4}},
                              {"expert_used_count", int64_t{2}},
                              {"expert_feed_forward_length", int64_t{8}}},
                             quarter);
              }),
              HasSubstr("experts beside MLPs of several sizes"));
}

/// Reads the configuration of a minimal GGUF file with these additional keys.
ModelSpec OfGguf(const std::string& architecture, const std::map<std::string, GgufValue>& more) {
  GgufFile gguf{{}, {}, "file.gguf"};
  gguf.metadata = {{"general.architecture", architecture},
                   {"tokenizer.ggml.tokens", std::vector<std::string>(100, "x")},
                   {architecture + ".context_length", int64_t{512}},
                   {architecture + ".embedding_length", int64_t{64}},
                   {architecture + ".block_count", int64_t{3}},
                   {architecture + ".feed_forward_length", int64_t{96}},
                   {architecture + ".attention.head_count", int64_t{4}},
                   {architecture + ".attention.head_count_kv", int64_t{2}},
                   {architecture + ".attention.layer_norm_rms_epsilon", 1e-5}};
  for (const auto& [key, value] : more) gguf.metadata[architecture + "." + key] = value;
  gguf.tensors["output.weight"] = {};
  return SpecFromGguf(gguf);
}

TEST(ArchitectureTest, GgufOfLlama4_GetsTheUsualChunksRotationAndNorms_BecauseTheFileStatesNone) {
  const auto read = [](std::map<std::string, GgufValue> more) {
    more.insert({{"block_count", int64_t{4}},
                 {"expert_count", int64_t{16}},
                 {"expert_used_count", int64_t{1}},
                 {"expert_feed_forward_length", int64_t{40}},
                 {"interleave_moe_layer_step", int64_t{2}}});
    return OfGguf("llama4", more);
  };
  ModelSpec gguf = read({});
  const ModelSpec hf = ReadLlama4({{"num_local_experts", 16},
                                   {"intermediate_size", 40},
                                   {"intermediate_size_mlp", 96},
                                   {"interleave_moe_layer_step", 2},
                                   {"rope_theta", 10000.0}});
  EXPECT_EQ(gguf.ropes[0].theta, hf.ropes[0].theta);
  gguf.ropes[0] = hf.ropes[0];
  gguf.norm_epsilon = hf.norm_epsilon;  // GGUF files hold it in 32 bits
  EXPECT_EQ(TextOf(gguf), TextOf(hf));
  EXPECT_EQ(read({{"expert_count", int64_t{128}}}).qk_norm, QkNorm::kNone) << "as Maverick";
  const ModelSpec whole = read({{"attention.sliding_window", int64_t{0}}});
  EXPECT_EQ(whole.chunk(), 0);
  for (const LayerSpec& layer : whole.layers) EXPECT_EQ(layer.rope, 0);
  EXPECT_THAT(ErrorThrownBy([&] {
                read({{"interleave_moe_layer_step", int64_t{0}}});
              }),
              HasSubstr("interleave_moe_layer_step = 0"));
}

TEST(ArchitectureTest, GgufOfMimoV2_CountsTheTokensBeforeTheQueryAsTheWindow_AndMustStateTheScaleOfValues) {
  const std::map<std::string, GgufValue> keys = {{"attention.key_length", int64_t{24}},
                                                 {"attention.value_length", int64_t{16}},
                                                 {"attention.value_scale", 0.5},
                                                 {"attention.head_count_kv", std::vector<int64_t>{1, 2, 1}},
                                                 {"attention.sliding_window", int64_t{32}},
                                                 {"attention.sliding_window_pattern", std::vector<int64_t>{0, 1, 0}},
                                                 {"nextn_predict_layers", int64_t{1}},
                                                 {"rope.dimension_count", int64_t{8}},
                                                 {"rope.freq_base_swa", 500.0},
                                                 {"expert_count", int64_t{4}},
                                                 {"expert_used_count", int64_t{2}},
                                                 {"expert_feed_forward_length", int64_t{32}},
                                                 {"expert_gating_func", int64_t{2}}};
  const ModelSpec spec = OfGguf("mimo2", keys);
  EXPECT_EQ(WindowsOf(spec), (std::vector<int64_t>{0, 33})) << "the last layer predicts further tokens";
  EXPECT_EQ(spec.layers[1].value_dim, 16);
  EXPECT_EQ(spec.layers[1].num_kv_heads, 2);
  EXPECT_EQ(spec.ropes[1].theta, 500);
  EXPECT_EQ(spec.scales.attention_out, 0.5);
  std::map<std::string, GgufValue> older = keys;
  older.erase("attention.value_scale");
  EXPECT_THAT(ErrorThrownBy([&] { OfGguf("mimo2", older); }), HasSubstr("files without attention.value_scale"));
}

TEST(ArchitectureTest, QueriesOfMistral3_GrowWithPosition_InGgufAsInHf) {
  const ModelSpec hf = Read("ministral3", {{"rope_parameters",
                                            {{"rope_type", "yarn"},
                                             {"factor", 16.0},
                                             {"mscale", 1.0},
                                             {"mscale_all_dim", 1.0},
                                             {"llama_4_scaling_beta", 0.1},
                                             {"original_max_position_embeddings", 32},
                                             {"rope_theta", 1e6}}}});
  const std::map<std::string, GgufValue> keys = {
      {"attention.temperature_scale", 0.1},       {"rope.freq_base", 1e6},
      {"rope.scaling.type", std::string("yarn")}, {"rope.scaling.factor", 16.0},
      {"rope.scaling.yarn_log_multiplier", 1.0},  {"rope.scaling.original_context_length", int64_t{32}}};
  const ModelSpec gguf = OfGguf("mistral3", keys);
  EXPECT_EQ(TextOf(gguf.ropes[0]), TextOf(hf.ropes[0]));
  EXPECT_EQ(gguf.longest_position, hf.longest_position);
  EXPECT_TRUE(gguf.interleaved_rope_rows);
  EXPECT_EQ(gguf.architecture, hf.architecture);
  EXPECT_EQ(OfGguf("mistral3", {}).ropes[0].query_growth, 0) << "as Mistral Small 3 has it";
  EXPECT_THAT(ErrorThrownBy([&] { OfGguf("llama", keys); }), HasSubstr("llama.attention.temperature_scale = 0.1"));
}

TEST(ArchitectureTest, GgufOfQwenVl_AcceptsRopeSections_AndEqualsTheTextModel) {
  const std::map<std::string, GgufValue> sections = {{"rope.dimension_sections", std::vector<int64_t>{2, 3, 3, 0}}};
  for (const std::string family : {"qwen2", "qwen3"}) {
    ModelSpec text = OfGguf(family + "vl", sections), plain = OfGguf(family, {});
    text.architecture = plain.architecture;
    EXPECT_EQ(TextOf(text), TextOf(plain));
    EXPECT_THAT(ErrorThrownBy([&] { OfGguf(family, sections); }), HasSubstr("rope.dimension_sections"));
  }
}

TEST(ArchitectureTest, Errors_NameGenerationConfigJson_WhenItIsWrong) {
  for (const char* generation : {"[]", R"({"eos_token_id": -5})", "{"}) {
    EXPECT_THAT(ErrorThrownBy([&] { SpecFromHf(SmallConfig("llama").dump(), generation, "config.json"); }),
                HasSubstr("(generation_config.json)"))
        << generation;
  }
}

TEST(ArchitectureTest, Gemma4_ReadsItsTextConfig_WhenTheConfigurationIsOfTheWholeModel) {
  const Json text = SmallConfig("gemma4_text");
  const auto read = [&](const Json& config) { return SpecFromHf(config.dump(), "", "config.json"); };
  Json whole = {{"model_type", "gemma4"}, {"text_config", text}};
  whole["text_config"]["eos_token_id"] = {7, 9};
  EXPECT_EQ(read(whole).eos_token_ids, (std::vector<TokenId>{7, 9}));
  EXPECT_EQ(read(whole).layers, Read("gemma4_text").layers);
  EXPECT_TRUE(read(whole).tied_embeddings);
  whole["tie_word_embeddings"] = false;
  EXPECT_FALSE(read(whole).tied_embeddings);
  whole["text_config"]["tie_word_embeddings"] = true;
  EXPECT_TRUE(read(whole).tied_embeddings) << "either may say so";
  whole["text_config"]["attention_bias"] = true;
  EXPECT_THAT(ErrorThrownBy([&] { read(whole); }), HasSubstr("text_config: attention_bias = true is not supported"));
}

TEST(ArchitectureTest, OlderFiles_AreRead_AlthoughNamesLackTheirPrefixAndMasksAreStored) {
  const Json floats = {{"dtype", "F32"}, {"shape", {1, 1, 1, 1}}}, bools = {{"dtype", "BOOL"}, {"shape", {1, 1, 2, 2}}};
  EXPECT_EQ(OpenRenamed("gpt2", "transformer.", {}), "");
  EXPECT_EQ(OpenRenamed("gpt2", "transformer.", {{"h.0.attn.bias", floats}}), "");
  EXPECT_EQ(OpenRenamed("bloom", "transformer.", {}), "");
  EXPECT_EQ(OpenRenamed("opt", "model.", {}), "");
  EXPECT_EQ(
      OpenRenamed("neox", "",
                  {{"gpt_neox.layers.0.attention.bias", bools}, {"gpt_neox.layers.0.attention.masked_bias", floats}}),
      "");
  EXPECT_THAT(OpenRenamed("gpt2", "", {{"transformer.h.0.attn.other", floats}}),
              HasSubstr("unexpected: transformer.h.0.attn.other"));
  EXPECT_THAT(OpenRenamed("gpt2", "trans", {}), HasSubstr("missing: transformer.wte.weight"));
}

TEST(ArchitectureTest, MissingUnexpectedAndMisshapenTensors_AreListedInOneError) {
  EXPECT_EQ(OpenError("qwen3", Json::object()), "");
  EXPECT_THAT(OpenError("qwen3", {{"model_type", "llama"}, {"layer_types", nullptr}}),
              AllOf(HasSubstr("unexpected: model.layers.{0-2}.self_attn.k_norm.weight, "), Not(HasSubstr("missing"))));
  const std::string other = OpenError("qwen25", {{"model_type", "qwen3"}, {"head_dim", 16}, {"vocab_size", 150}});
  EXPECT_THAT(other,
              AllOf(HasSubstr("missing: model.layers.{0-1}.self_attn.q_norm.weight, "),
                    HasSubstr("; unexpected: model.layers.{0-1}.self_attn.k_proj.bias, "),
                    HasSubstr("; of another shape or type: model.embed_tokens.weight [163, 64] instead of [150, 64]")));
  EXPECT_THAT(OpenError("qwen3", {{"num_hidden_layers", 40}, {"layer_types", nullptr}}),
              HasSubstr("model.layers.{3-39}.mlp.down_proj.weight"));
  EXPECT_EQ(OpenError("gqa", {{"tie_word_embeddings", true}}), "") << "a head that HF does not look at, either";
}

const Json kExperts = {{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}, {"n_group", 1}};

ModelSpec ReadMixture(const std::string& family, const Json& changes = Json::object()) {
  Json config = SmallConfig(family);
  config.update(kExperts);
  if (family == "qwen2_moe") config["shared_expert_intermediate_size"] = 40;
  config.update(changes);
  return SpecFromHf(config.dump(), "", "config.json");
}

std::vector<bool> MixturesOf(const ModelSpec& spec) {
  std::vector<bool> mixtures;
  for (const LayerSpec& layer : spec.layers) mixtures.push_back(layer.mixture);
  return mixtures;
}

TEST(MixtureTest, LayersWithExperts_FollowTheConfiguration) {
  EXPECT_EQ(MixturesOf(ReadMixture("qwen3_moe")), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(MixturesOf(ReadMixture("qwen3_moe", {{"decoder_sparse_step", 2}})),
            (std::vector<bool>{false, true, false}));
  EXPECT_EQ(MixturesOf(ReadMixture("qwen2_moe", {{"mlp_only_layers", {0, 2}}})),
            (std::vector<bool>{false, true, false}));
  EXPECT_EQ(MixturesOf(ReadMixture("glm4_moe", {{"first_k_dense_replace", 2}})),
            (std::vector<bool>{false, false, true}));
  EXPECT_EQ(MixturesOf(ReadMixture("mixtral")), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(ReadMixture("qwen3_moe", {{"mlp_only_layers", {0, 1, 2}}}).mixture.experts, 0) << "no layer has any";
}

TEST(MixtureTest, Experts_AreReadFromTensorsOfTheirOwnInSafetensors_AndFromSharedTensorsInGguf) {
  const ModelSpec spec = ReadMixture("qwen2_moe", {{"mlp_only_layers", {0}}});
  std::map<std::string, std::vector<int64_t>> hf, gguf;
  for (const ExpectedTensor& t : ExpectedTensors(spec, WeightsOf(spec), Naming::kHf)) hf[t.name] = t.shape;
  for (const ExpectedTensor& t : ExpectedTensors(spec, WeightsOf(spec), Naming::kGguf)) gguf[t.name] = t.shape;
  EXPECT_EQ(hf.at("model.layers.1.mlp.experts.7.down_proj.weight"), (std::vector<int64_t>{64, 24}));
  EXPECT_EQ(hf.at("model.layers.2.mlp.shared_expert.up_proj.weight"), (std::vector<int64_t>{40, 64}));
  EXPECT_EQ(hf.at("model.layers.0.mlp.down_proj.weight"), (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(hf.count("model.layers.0.mlp.gate.weight") + hf.count("model.layers.1.mlp.up_proj.weight"), 0u);
  EXPECT_EQ(gguf.at("blk.1.ffn_down_exps.weight"), (std::vector<int64_t>{8, 64, 24}));
  EXPECT_EQ(gguf.at("blk.2.ffn_gate_inp.weight"), (std::vector<int64_t>{8, 64}));
}

TEST(MixtureTest, MlpBesideTheExperts_IsTheSharedExpert_InGemma4) {
  ModelSpec spec = ReadMixture("gemma4_text", {{"enable_moe_block", true}, {"top_k_experts", 2}});
  EXPECT_EQ(spec.mixture.experts_per_token, 2);
  EXPECT_EQ(spec.mixture.shared_intermediate_size, 96);
  const auto shapes_of = [](const ModelSpec& s, Naming naming) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const ExpectedTensor& t : ExpectedTensors(s, WeightsOf(s), naming)) shapes[t.name] = t.shape;
    return shapes;
  };
  const auto hf = shapes_of(spec, Naming::kHf), gguf = shapes_of(spec, Naming::kGguf);
  EXPECT_EQ(hf.at("model.layers.1.mlp.down_proj.weight"), (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(hf.at("model.layers.1.experts.gate_up_proj"), (std::vector<int64_t>{8, 48, 64}));
  EXPECT_EQ(hf.at("model.layers.2.router.per_expert_scale"), (std::vector<int64_t>{8}));
  EXPECT_EQ(gguf.at("blk.1.ffn_down.weight"), (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(gguf.at("blk.1.ffn_gate_up_exps.weight"), (std::vector<int64_t>{8, 48, 64}));
  EXPECT_EQ(gguf.at("blk.2.ffn_gate_inp.scale"), (std::vector<int64_t>{64}));
  spec.mixture.file_rows = GateUpRows::kApart;  // as in some older GGUF files
  const auto apart = shapes_of(spec, Naming::kGguf);
  EXPECT_EQ(apart.at("blk.1.ffn_gate_exps.weight"), (std::vector<int64_t>{8, 24, 64}));
  EXPECT_EQ(apart.at("blk.1.ffn_up_exps.weight"), (std::vector<int64_t>{8, 24, 64}));
  EXPECT_FALSE(apart.contains("blk.1.ffn_gate_up_exps.weight"));
}

TEST(MixtureTest, NumberOfWeightsUsed_CountsOnlyTheExpertsOfAToken) {
  const ModelSpec spec = ReadMixture("qwen3_moe", {{"mlp_only_layers", {0}}});
  EXPECT_EQ(MatrixNumbersPerUnit(spec, Axis::kExpertMlp), 2 * 2 * 3 * 64) << "two layers, two experts, three matrices";
  EXPECT_EQ(MatrixNumbersPerUnit(spec, Axis::kMlp), 3 * 64) << "of one layer";
  EXPECT_EQ(MatrixNumbersPerUnit(spec, Axis::kSharedMlp), 0);
  EXPECT_EQ(LayerMatrixNumbers(spec), 3 * 64 * (64 + 32 + 32 + 64) + 3 * 96 * 64 + 2 * (8 * 64 + 2 * 3 * 24 * 64));
}

TEST(MixtureTest, PartOfTheWeightsThatAStepReads_GrowsWithItsTokens) {
  EXPECT_EQ(ReadPart(Read("llama"), 1), 1);
  const ModelSpec spec = ReadMixture("mixtral");  // each token chooses 2 of 8 experts of 96 columns, in all 3 layers
  const double others = 3 * (64 * (64 + 32 + 32 + 64) + 8 * 64) + 100 * 64, expert = 3 * 3 * 96 * 64;
  EXPECT_DOUBLE_EQ(ReadPart(spec, 1), (others + 2 * expert) / (others + 8 * expert));
  EXPECT_DOUBLE_EQ(ReadPart(spec, 2), (others + 3.5 * expert) / (others + 8 * expert));
  EXPECT_NEAR(ReadPart(spec, 1000), 1, 1e-12);
}

TEST(MixtureTest, UnsupportedRouting_IsRefusedByName) {
  const std::tuple<std::string, Json, std::string> cases[] = {
      {"qwen3_moe", {{"num_experts_per_tok", 9}}, "9 experts per token of 8"},
      {"qwen3_moe", {{"num_experts_per_tok", 0}}, "0 experts per token"},
      {"qwen3_moe", {{"num_experts", 2000}}, "2000 experts are out of range"},
      {"qwen3_moe", {{"moe_intermediate_size", 0}}, "intermediate size of 0"},
      {"qwen3_moe", {{"decoder_sparse_step", 0}}, "decoder_sparse_step = 0"},
      {"qwen3_moe", {{"hidden_act", "gelu"}}, "hidden_act"},
      {"qwen2_moe", {{"shared_expert_intermediate_size", -1}}, "shared expert's intermediate size of -1"},
      {"glm4_moe", {{"n_group", 3}}, "8 experts in 3 groups"},
      {"glm4_moe", {{"n_group", 8}, {"topk_group", 8}}, "groups of one expert"},
      {"glm4_moe", {{"n_group", 4}, {"topk_group", 5}}, "5 of 4 groups"},
      {"glm4_moe", {{"n_group", 4}, {"num_experts_per_tok", 3}}, "3 experts per token of 2"},
      {"glm4_moe", {{"n_shared_experts", -1}}, "-1 shared experts"},
      {"glm4_moe", {{"n_shared_experts", int64_t{1} << 62}}, "shared experts are out of range"},
      {"qwen3_moe", {{"num_hidden_layers", 200}, {"num_experts", 1000}}, "200 layers of 1000 experts"},
      {"glm4_moe", {{"routed_scaling_factor", 0}}, "scale of experts of 0"},
      {"glm4_moe", {{"first_k_dense_replace", -1}}, "-1 layers"},
      {"olmoe", {{"clip_qkv", 8}}, "clip_qkv = 8"},
      {"qwen3_moe", {{"routed_scaling_factor", 2.5}}, "routed_scaling_factor = 2.5"},
      {"qwen3_moe", {{"scoring_func", "sigmoid"}}, "scoring_func = \"sigmoid\""},
      {"olmoe", {{"n_shared_experts", 1}}, "n_shared_experts = 1"},
      {"glm4_moe", {{"scoring_func", "softmax"}}, "scoring_func \"softmax\""},
      {"gpt_oss", Json::object(), "rope_parameters is missing"},
      {"gpt_oss", {{"rope_scaling", {{"rope_type", "default"}}}, {"swiglu_alpha", 2}}, "swiglu_alpha"},
      {"gpt_oss", {{"rope_scaling", {{"rope_type", "default"}}}, {"swiglu_limit", 0}}, "a limit of gates of 0"},
      {"gpt_oss",
       {{"rope_scaling", {{"rope_type", "default"}}}, {"quantization_config", {{"quant_method", "gptq"}}}},
       "quant_method \"gptq\""},
      {"llama", {{"num_experts", 8}}, "num_experts = 8"},
      {"mixtral", {{"attention_bias", true}}, "attention_bias = true"},
  };
  for (const auto& [family, changes, message] : cases) {
    EXPECT_THAT(ErrorThrownBy([&, f = family, c = changes] { ReadMixture(f, c); }), HasSubstr(message)) << family;
  }
}

TEST(MixtureTest, MultiTokenPredictionLayers_AreAllowed_InGlm4) {
  EXPECT_TRUE(MayBePresent(ReadMixture("glm4_moe"), "model.layers.3.eh_proj.weight", Naming::kHf));
  EXPECT_FALSE(MayBePresent(ReadMixture("glm4_moe"), "model.layers.2.eh_proj.weight", Naming::kHf));
  EXPECT_FALSE(MayBePresent(ReadMixture("qwen3_moe"), "model.layers.3.eh_proj.weight", Naming::kHf));
}

TEST(MixtureTest, MissingAndUnexpectedExperts_AreNamed) {
  EXPECT_THAT(OpenError("mixtral", {{"num_local_experts", 6}}),
              AllOf(HasSubstr("missing: "), HasSubstr("model.layers.{0-1}.block_sparse_moe.experts.5.w1.weight")));
  EXPECT_THAT(OpenError("mixtral", {{"num_local_experts", 4}}),
              AllOf(HasSubstr("unexpected: "), HasSubstr("model.layers.{0-1}.block_sparse_moe.experts.4.w1.weight")));
}

}  // namespace
}  // namespace quire
