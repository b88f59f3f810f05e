// Formats that only model files have, against numbers of llama.cpp's Python package
// (tests/golden/make_quant_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/json.h"
#include "comm/model/mapped_file.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {
namespace {

struct Case {
  const char* name;
  WeightType type;
  float recoded_error;  // of a number that is packed, as a part of the largest of its block
};

class FileQuantsTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRows = 2, kCols = 256;

  FileQuantsTest() {
    const std::string path = std::string(QUIRE_TEST_DATA) + "/file_quants.json";
    const Json all = ParseJson(ReadTextFile(path, 1 << 20), path, {.max_depth = 4, .max_nodes = 100'000});
    const Json& golden = all.at(GetParam().name);
    numbers_ = golden.at("numbers").get<std::vector<float>>();
    const auto hex = golden.at("blocks").get<std::string>();
    for (size_t i = 0; i < hex.size(); i += 2) bytes_.push_back(std::byte(std::stoi(hex.substr(i, 2), nullptr, 16)));
    weight_ = {GetParam().type, bytes_.data(), kRows, kCols, RowBytes(GetParam().type, kCols)};
  }

  std::vector<std::byte> bytes_;
  std::vector<float> numbers_;  // [kRows, kCols]
  Weight weight_;
};

TEST_P(FileQuantsTest, NumbersAreThoseOfLlamaCpp) {
  ASSERT_EQ(static_cast<int64_t>(bytes_.size()), kRows * weight_.row_bytes);
  std::vector<float> row(kCols);
  for (int64_t r = 0; r < kRows; ++r) {
    DecodeRow(weight_, r, 0, kCols, row.data());
    for (int64_t i = 0; i < kCols; ++i) {
      const float expected = numbers_[static_cast<size_t>(r * kCols + i)];
      EXPECT_NEAR(row[static_cast<size_t>(i)], expected, 1e-6f * std::max(1.0f, std::abs(expected))) << r << ", " << i;
    }
  }
}

TEST_P(FileQuantsTest, PackedRowsStayClose) {
  const WeightType packed = PackedType(weight_.type);
  ASSERT_EQ(PackedType(packed), packed);
  std::vector<std::byte> recoded(static_cast<size_t>(RowBytes(packed, kCols)));
  std::vector<float> row(kCols);
  for (int64_t r = 0; r < kRows; ++r) {
    RecodeRow(weight_, r, 0, kCols, recoded.data());
    DecodeRow({packed, recoded.data(), 1, kCols, RowBytes(packed, kCols)}, 0, 0, kCols, row.data());
    for (int64_t begin = 0; begin < kCols; begin += kQuantBlock) {
      const float* expected = numbers_.data() + r * kCols + begin;
      float largest = 0;
      for (int i = 0; i < kQuantBlock; ++i) largest = std::max(largest, std::abs(expected[i]));
      for (int i = 0; i < kQuantBlock; ++i) {
        EXPECT_NEAR(row[static_cast<size_t>(begin + i)], expected[i], largest * GetParam().recoded_error + 1e-6f)
            << r << ", " << begin + i;
      }
    }
  }
}

// A half has 11 bits, for scale and minimum of q4_k; a new rounding to 127 steps is off by half a step and the half's
// part.
INSTANTIATE_TEST_SUITE_P(Formats, FileQuantsTest,
                         testing::Values(Case{"Q5_0", WeightType::kQ5_0, 0}, Case{"Q5_1", WeightType::kQ5_1, 0.0045f},
                                         Case{"Q4_K", WeightType::kQ4_K, 0.003f},
                                         Case{"Q5_K", WeightType::kQ5_K, 0.0045f},
                                         Case{"Q6_K", WeightType::kQ6_K, 0.0045f}),
                         [](const testing::TestParamInfo<Case>& format) { return format.param.name; });

}  // namespace
}  // namespace quire::kernels
