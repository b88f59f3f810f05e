// Compares the weights of latent attention with the file's matrix for keys and values: [heads, key_dim + value_dim,
// rank]. Also tests that a row's result has the same bits in a batch.
#include "worker/cpu/latents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "kernels/matmul.h"
#include "tests/support/expect_near.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "worker/cpu/weights.h"
#include "worker/model/stored_rows.h"

namespace quire {
namespace {

std::vector<float> Multiply(const kernels::PackedWeight& weight, const std::vector<float>& x) {
  std::vector<float> y(static_cast<size_t>(weight.rows));
  kernels::Matmul(kernels::CpuStream(1), {x.data(), weight.cols, &weight, 1, y.data(), weight.rows, 1});
  return y;
}

class LatentWeightsTest : public testing::TestWithParam<int> {};

TEST_P(LatentWeightsTest, Weights_MapQueriesToLatentsAndLatentsToValues) {
  const test::RandomModel model({.heads = 5, .intermediate = 128, .family = "deepseek_v3", .packed_bits = GetParam()},
                                7);
  const ModelFiles files = ModelFiles::Open(model.path());
  const LatentAttention& latent = files.spec().latent;
  const Tensor& stored = files.Get(Role::kLatentKeys, 1);
  test::Random random(1);
  int64_t head = 0;
  for (const RankShard& shard : PlanShards(files.spec(), {1, 1})) {
    const ModelWeights weights(files, shard, Quantization::kNone);
    const LatentWeights& w = weights.layers[1].latents;
    ASSERT_EQ(std::ssize(w.keys), shard.heads.size());
    for (int64_t h = 0; h < shard.heads.size(); ++h, ++head) {
      const auto query = random.Floats(latent.key_dim), mean = random.Floats(latent.rank);
      std::vector<double> at_latents(static_cast<size_t>(latent.rank)), values(static_cast<size_t>(latent.value_dim));
      std::vector<float> row(static_cast<size_t>(latent.rank));
      for (int64_t i = 0; i < latent.key_dim + latent.value_dim; ++i) {
        DecodeRow(stored, head * (latent.key_dim + latent.value_dim) + i, 0, latent.rank, row.data());
        for (size_t r = 0; r < row.size(); ++r) {
          if (i < latent.key_dim) {
            at_latents[r] += double{query[static_cast<size_t>(i)]} * row[r];
          } else {
            values[static_cast<size_t>(i - latent.key_dim)] += double{mean[r]} * row[r];
          }
        }
      }
      const auto index = static_cast<size_t>(h);
      test::ExpectNear(Multiply(w.keys[index], query), at_latents, 1e-4, "keys of head " + std::to_string(head));
      test::ExpectNear(Multiply(w.values[index], mean), values, 2e-3, "values of head " + std::to_string(head));
    }
  }
  EXPECT_EQ(head, 5);
}

// The batch has more rows than one product takes.
TEST_P(LatentWeightsTest, Rows_AreBitEqual_AloneAndInABatch) {
  const test::RandomModel model({.heads = 5, .intermediate = 128, .family = "deepseek_v3", .packed_bits = GetParam()},
                                7);
  const ModelFiles files = ModelFiles::Open(model.path());
  const ModelSpec& spec = files.spec();
  const RankShard shard = PlanShards(spec, {1, 1})[0];
  const ModelWeights weights(files, shard, Quantization::kNone);
  const LatentWeights& w = weights.layers[1].latents;
  const kernels::CpuStream stream(2);
  constexpr int64_t kTokens = 251;
  CpuLatents latents(spec, shard, stream, kernels::Activations::kInt16, kTokens);
  const auto hidden = static_cast<size_t>(spec.hidden_size), heads = static_cast<size_t>(shard.heads.size()),
             dim = static_cast<size_t>(spec.layers[1].head_dim), value_dim = static_cast<size_t>(spec.latent.value_dim);
  test::Random random(2);
  const auto x = random.Floats(kTokens * spec.hidden_size);
  const auto attended = random.Floats(kTokens * static_cast<int64_t>(heads * dim));
  std::vector<float> all(kTokens * (heads + 1) * dim), one((heads + 1) * dim);
  latents.Project(w, x.data(), kTokens, all.data());
  latents.MakeValues(w, attended.data(), kTokens);
  const std::vector<float> values(latents.values(), latents.values() + kTokens * heads * value_dim);
  for (const size_t row : {0, 1, 119, 120, 130, 240, 250}) {
    latents.Project(w, x.data() + row * hidden, 1, one.data());
    EXPECT_TRUE(std::ranges::equal(one, std::span(all).subspan(row * one.size(), one.size()))) << "row " << row;
    latents.MakeValues(w, attended.data() + row * heads * dim, 1);
    EXPECT_TRUE(std::equal(latents.values(), latents.values() + heads * value_dim,
                           values.begin() + static_cast<int64_t>(row * heads * value_dim)))
        << "values of row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndPacked, LatentWeightsTest, testing::Values(0, 4, 8));

}  // namespace
}  // namespace quire
