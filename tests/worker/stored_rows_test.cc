// Tests the form in which the CPU engine stores quantised matrices, and that the numbers of their files do not change.
#include "worker/model/stored_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"
#include "comm/model/model_files.h"
#include "kernels/packed_weight.h"
#include "worker/model/weight_slice.h"

namespace quire {
namespace {

ModelFiles GoldenModel(const std::string& name) {
  return ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + name);
}

/// Recodes rows to `form`, decodes them and compares them with the file's numbers. Scale and minimum of a block are
/// rounded to fp16, so an error may be twice the rounding error of the row's largest number.
void ExpectSameNumbers(const Tensor& tensor, NumberType form) {
  const int64_t cols = tensor.cols();
  std::vector<float> wanted(static_cast<size_t>(cols)), got(wanted.size());
  std::vector<std::byte> recoded(static_cast<size_t>(kernels::RowBytes(form, cols)));
  for (int64_t row = 0; row < tensor.rows(); ++row) {
    DecodeRow(tensor, row, 0, cols, wanted.data());
    RecodeRow(tensor, form, row, 0, cols, recoded.data());
    const Tensor packed{form, {1, cols}, recoded};
    kernels::DecodeRow(AsWeight(packed), 0, 0, cols, got.data());
    float most = 0;
    for (const float number : wanted) most = std::max(most, std::abs(number));
    for (size_t col = 0; col < wanted.size(); ++col)
      ASSERT_NEAR(got[col], wanted[col], 2 * most * 0x1p-11f) << "row " << row << ", column " << col;
  }
}

TEST(StoredRowsTest, FormOf_KeepsIntegersPacked_WhereProductsSupportThem) {
  const struct {
    const char* model;
    Role role;
    NumberType form;
    const char* widened;
  } cases[] = {
      {"gptq", Role::kQuery, NumberType::kQ4_0, nullptr},
      {"gptq_asym", Role::kDown, NumberType::kQ4_1, nullptr},
      {"gptq_act", Role::kGate, NumberType::kF16, "act-order"},
      {"gptq_v2", Role::kUp, NumberType::kQ8_0, nullptr},
      {"awq", Role::kValue, NumberType::kQ4_1, nullptr},
      {"packed", Role::kKey, NumberType::kQ4_0, nullptr},
      {"packed", Role::kGate, NumberType::kQ4_1, nullptr},
      {"packed", Role::kAttentionOut, NumberType::kQ8_0, nullptr},
      {"packed", Role::kHead, NumberType::kF16, "8-bit integers with zeros"},
      {"int8", Role::kGate, NumberType::kQ8_0, nullptr},
      {"int8", Role::kUp, NumberType::kF16, "8-bit integers with zeros"},
      {"fp8", Role::kQuery, NumberType::kF16, "FP8"},
      {"fp8_channel", Role::kDown, NumberType::kF16, "FP8"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.model << ", role " << static_cast<int>(c.role));
    const ModelFiles files = GoldenModel(c.model);
    const Tensor& tensor = files.Get(c.role, c.role == Role::kHead ? 0 : 1);
    const PackedForm form = FormOf(tensor, "m");
    EXPECT_EQ(form.type, c.form);
    ASSERT_EQ(form.widened == nullptr, c.widened == nullptr);
    if (c.widened != nullptr) {
      EXPECT_THAT(form.widened, testing::HasSubstr(c.widened));
    }
    ExpectSameNumbers(tensor, form.type);
  }
}

TEST(StoredRowsTest, FormOf_KeepsPlainTensors) {
  const ModelFiles files = GoldenModel("gqa");
  const Tensor& tensor = files.Get(Role::kQuery, 1);
  EXPECT_EQ(FormOf(tensor, "m").type, NumberType::kBF16);
  EXPECT_EQ(FormOf(tensor, "m").widened, nullptr);
  EXPECT_EQ(DecodeBlock(tensor), 1);
}

TEST(StoredRowsTest, FormOf_WidensIntegers_WhenAGroupCutsABlock) {
  const std::vector<std::byte> ints(2 * 96 / 2), scales(2 * 4 * 4);
  ScaledMatrix matrix{.rows = 2, .cols = 96, .zero = 8};
  matrix.group = 24;
  matrix.ints = {.data = ints.data(), .bits = 4, .row_stride = 12, .col_stride = 1};
  matrix.scales = {.data = scales.data(), .row_stride = 4, .group_stride = 1};
  Tensor tensor{NumberType::kInt4, {2, 96}, ints, scales};
  tensor.scaled = std::make_shared<const ScaledMatrix>(matrix);
  EXPECT_EQ(FormOf(tensor, "m").type, NumberType::kF16);
  EXPECT_THAT(FormOf(tensor, "m").widened, testing::HasSubstr("no multiple of 32"));
  matrix.group = 32;
  tensor.scaled = std::make_shared<const ScaledMatrix>(matrix);
  EXPECT_EQ(FormOf(tensor, "m").type, NumberType::kQ4_0);
  matrix.group = 96;
  tensor.scaled = std::make_shared<const ScaledMatrix>(matrix);
  EXPECT_EQ(FormOf(tensor, "m").type, NumberType::kQ4_0);
}

}  // namespace
}  // namespace quire
