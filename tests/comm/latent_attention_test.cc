// Tests configurations of models with latent attention, whose keys and values are computed from latents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"

namespace quire {
namespace {

using testing::HasSubstr;

/// Returns the published configuration of DeepSeek-V2-Lite, without the keys that HF does not read.
Json Lite() {
  return {{"model_type", "deepseek_v2"},
          {"hidden_size", 2048},
          {"num_hidden_layers", 27},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 16},
          {"intermediate_size", 10944},
          {"vocab_size", 102400},
          {"max_position_embeddings", 163840},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000},
          {"rope_scaling",
           {{"type", "yarn"},
            {"factor", 40},
            {"mscale", 0.707},
            {"mscale_all_dim", 0.707},
            {"beta_fast", 32},
            {"beta_slow", 1},
            {"original_max_position_embeddings", 4096}}},
          {"q_lora_rank", nullptr},
          {"kv_lora_rank", 512},
          {"qk_nope_head_dim", 128},
          {"qk_rope_head_dim", 64},
          {"v_head_dim", 128},
          {"n_routed_experts", 64},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 6},
          {"moe_intermediate_size", 1408},
          {"first_k_dense_replace", 1},
          {"norm_topk_prob", false},
          {"scoring_func", "softmax"},
          {"topk_method", "greedy"},
          {"n_group", 1},
          {"topk_group", 1},
          {"eos_token_id", 100001}};
}

ModelSpec Read(const Json& changes) {
  Json config = Lite();
  config.update(changes);
  return SpecFromHf(config.dump(), "", "model");
}

TEST(LatentAttentionTest, KvCache_HoldsTheLatentAndOneHeadWithRope) {
  const ModelSpec spec = Read(Json::object());
  EXPECT_EQ(spec.layers[5].num_kv_heads, 1);
  EXPECT_EQ(spec.layers[5].head_dim, 64 + 512);
  EXPECT_EQ(spec.rotated_dims(spec.layers[5]), 64);
  EXPECT_TRUE(spec.interleaved_rope_rows);
  EXPECT_FALSE(spec.layers[0].mixture);
  EXPECT_TRUE(spec.layers[1].mixture);
  EXPECT_EQ(spec.mixture.shared_intermediate_size, 2 * 1408);
  EXPECT_EQ(spec.mixture.score, RouterScore::kSoftmax);
}

// DeepSeek's own code multiplies the scale of the softmax by the square of 0.1 * mscale_all_dim * ln(factor) + 1, and
// leaves cosines and sines unscaled.
TEST(LatentAttentionTest, AttentionScale_IncludesTheFactorOfYarn) {
  const double yarn = 0.1 * 0.707 * std::log(40.0) + 1;
  const ModelSpec spec = Read(Json::object());
  EXPECT_NEAR(AttentionScale(spec, spec.layers[0]), yarn * yarn / std::sqrt(192.0), 1e-6);
  EXPECT_EQ(spec.ropes[0].attention_factor, 1);
  const ModelSpec plain = Read({{"rope_scaling", nullptr}});
  EXPECT_NEAR(AttentionScale(plain, plain.layers[0]), 1 / std::sqrt(192.0), 1e-7);
}

TEST(LatentAttentionTest, Weights_DependOnQLoraRank) {
  const auto has = [](const ModelSpec& spec, Role role) {
    return std::ranges::any_of(WeightsOf(spec), [&](const WeightSpec& weight) { return weight.role == role; });
  };
  const ModelSpec direct = Read(Json::object()), by_rank = Read({{"q_lora_rank", 1536}});
  EXPECT_FALSE(has(direct, Role::kQueryIn));
  EXPECT_TRUE(has(by_rank, Role::kQueryIn));
  for (const ModelSpec& spec : {direct, by_rank}) EXPECT_FALSE(has(spec, Role::kKey));
  // Compares how many more numbers a rank reads for one more head: of a layer's keys and values, and of its queries and
  // output.
  EXPECT_EQ(LayerNumbersPerUnit(direct, Axis::kKeyParts)[3], 512);
  EXPECT_EQ(LayerNumbersPerUnit(direct, Axis::kValueParts)[3], 512 + 2048);
  EXPECT_EQ(LayerNumbersPerUnit(by_rank, Axis::kQueryParts)[3], 1536);
}

TEST(LatentAttentionTest, UnsupportedKeys_AreRefusedByName) {
  const std::pair<Json, std::string> cases[] = {
      {{{"topk_method", "group_limited_greedy"}, {"n_group", 8}}, "topk_method \"group_limited_greedy\""},
      {{{"scoring_func", "sigmoid"}}, "scoring_func"},
      {{{"attention_bias", true}}, "attention_bias"},
      {{{"qk_head_dim", 128}}, "qk_head_dim of 128"},
      {{{"kv_lora_rank", 0}}, "kv_lora_rank = 0"},
      {{{"kv_lora_rank", 1 << 20}}, "kv_lora_rank = 1048576"},
      {{{"q_lora_rank", -1}}, "q_lora_rank = -1"},
      {{{"qk_rope_head_dim", 63}}, "63 of 575 dimensions of a head cannot rotate in pairs"},
      {{{"v_head_dim", -128}}, "v_head_dim = -128"},
      {{{"moe_layer_freq", 2}}, "moe_layer_freq"},
      {{{"model_type", "glm4_moe_lite"}, {"scoring_func", "sigmoid"}, {"mlp_layer_types", {"dense"}}},
       "mlp_layer_types lists 1 layers of 27"},
  };
  for (const auto& [changes, message] : cases) {
    try {
      Read(changes);
      ADD_FAILURE() << changes << " was read";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace quire
