#include "comm/model/formats/kv_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <span>

#include "comm/base/error.h"

namespace quire {
namespace {

/// A set of tensors that hold fp32 numbers.
class Numbers {
 public:
  void Add(const std::string& name, std::vector<int64_t> shape, std::vector<float> numbers) {
    kept_.push_back(std::move(numbers));
    tensors.emplace(name, Tensor{NumberType::kF32, std::move(shape), std::as_bytes(std::span(kept_.back()))});
  }

  TensorMap tensors;

 private:
  std::deque<std::vector<float>> kept_;
};

TEST(KvScalesTest, Scales_AreFoundUnderTheNamesOfPublishedFiles) {
  Numbers file;
  file.Add("model.layers.0.self_attn.k_scale", {}, {0.5f});
  file.Add("model.layers.0.self_attn.v_scale", {1}, {0.25f});
  file.Add("model.layers.1.self_attn.attn.k_scale", {1}, {3});
  file.Add("model.layers.10.self_attn.k_proj.k_scale", {}, {4});
  file.Add("model.layers.10.self_attn.v_proj.v_scale", {}, {5});
  file.Add("model.layers.2.self_attn.kv_scale", {}, {6});
  file.Add("model.layers.3.self_attn.k_scale", {2}, {7, 8});  // scales for each head, which are not used
  file.Add("model.layers.3.self_attn.k_proj.weight_scale", {1}, {9});
  const std::vector<KvScales> scales = TakeKvScales(file.tensors, 11, "a test");
  ASSERT_EQ(scales.size(), 11u);
  const auto expect = [&](size_t layer, float key, float value) {
    EXPECT_EQ(scales[layer].key, key) << layer;
    EXPECT_EQ(scales[layer].value, value) << layer;
  };
  expect(0, 0.5f, 0.25f);
  expect(1, 3, 1);
  expect(2, 6, 6);
  expect(3, 1, 1);
  expect(4, 1, 1);
  expect(10, 4, 5);
  EXPECT_EQ(file.tensors.size(), 1u) << "other scales stay";
}

TEST(KvScalesTest, Scales_AreRefused_WhenTheyAreNotPositiveAndFinite) {
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    Numbers file;
    file.Add("model.layers.0.self_attn.v_scale", {}, {scale});
    EXPECT_THAT([&] { TakeKvScales(file.tensors, 1, "a test"); },
                testing::ThrowsMessage<Error>(testing::AllOf(testing::StartsWith("a test: tensor model.layers.0."),
                                                             testing::HasSubstr("above zero"))))
        << scale;
  }
}

}  // namespace
}  // namespace quire
