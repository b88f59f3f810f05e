// Compares formats that only model files have with the numbers of llama.cpp's Python package
// (tests/golden/make_quant_golden.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "kernels/packed_weight.h"

namespace quire::kernels {
namespace {

struct Case {
  const char* name;
  NumberType type;
  float recoded_error;  // the error of a recoded number, relative to the largest of its block
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

TEST_P(FileQuantsTest, DecodeRow_GivesTheNumbersOfLlamaCpp) {
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

TEST_P(FileQuantsTest, RecodeRow_StaysCloseToTheNumbers_WhenAFormatIsPacked) {
  const NumberType packed = PackedType(weight_.type);
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

// The last number of each case is the tolerance of recoded numbers, relative to the largest number of their block.
// 0.003: the scale and the minimum of q4_k are rounded to fp16 numbers of 11 bits. 0.0045: numbers are rounded again,
// to 127 steps, which adds an error of half a step and the error of the rounded scale.
INSTANTIATE_TEST_SUITE_P(
    Formats, FileQuantsTest,
    testing::Values(Case{"Q5_0", NumberType::kQ5_0, 0}, Case{"Q5_1", NumberType::kQ5_1, 0.0045f},
                    Case{"Q4_K", NumberType::kQ4_K, 0.003f}, Case{"Q5_K", NumberType::kQ5_K, 0.0045f},
                    Case{"Q6_K", NumberType::kQ6_K, 0.0045f}, Case{"Q2_K", NumberType::kQ2_K, 0.0045f},
                    Case{"Q3_K", NumberType::kQ3_K, 0.0045f}, Case{"IQ4_NL", NumberType::kIQ4_NL, 0},
                    Case{"IQ4_XS", NumberType::kIQ4_XS, 0.0006f}, Case{"IQ1_S", NumberType::kIQ1_S, 0.0016f},
                    Case{"IQ1_M", NumberType::kIQ1_M, 0.0045f}, Case{"IQ2_XXS", NumberType::kIQ2_XXS, 0.0006f},
                    Case{"IQ2_XS", NumberType::kIQ2_XS, 0.0045f}, Case{"IQ2_S", NumberType::kIQ2_S, 0.0045f},
                    Case{"IQ3_XXS", NumberType::kIQ3_XXS, 0.0006f}, Case{"IQ3_S", NumberType::kIQ3_S, 0.0006f},
                    Case{"TQ1_0", NumberType::kTQ1_0, 0}, Case{"TQ2_0", NumberType::kTQ2_0, 0}),
    [](const testing::TestParamInfo<Case>& format) { return format.param.name; });

/// A row of two blocks. Each half block has all 16 codes. The scales of the blocks are 2 and 2^-3.
struct MxFp4Row {
  explicit MxFp4Row(NumberType type) {
    for (const int scale : {128, 124}) {
      if (type == NumberType::kMxFp4) {
        bytes.push_back(std::byte(scale));
      } else {
        scales.push_back(std::byte(scale));
      }
      for (int i = 0; i < 16; ++i) {
        const int low = type == NumberType::kMxFp4 ? i : 2 * i % 16;
        const int high = type == NumberType::kMxFp4 ? 15 - i : (2 * i + 1) % 16;
        bytes.push_back(std::byte(low | high << 4));
      }
    }
    weight = {type, bytes.data(), 1, 64, RowBytes(type, 64), scales.data()};
  }
  std::vector<std::byte> bytes, scales;
  Weight weight;
};

constexpr float kCodes[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

TEST(MxFp4Test, DecodeRow_GivesTheStandardsNumbers_InBothOrdersOfNibbles) {
  for (const NumberType type : {NumberType::kMxFp4, NumberType::kMxFp4Pairs}) {
    const MxFp4Row row(type);
    float numbers[64];
    DecodeRow(row.weight, 0, 0, 64, numbers);
    for (int i = 0; i < 64; ++i) {
      const int at = i % 32, code = type == NumberType::kMxFp4 && at >= 16 ? 31 - at : at % 16;
      EXPECT_EQ(numbers[i], kCodes[code] * (i < 32 ? 2.0f : 0.125f)) << i;
    }
    float second[32];
    DecodeRow(row.weight, 0, 32, 32, second);
    EXPECT_TRUE(std::equal(second, second + 32, numbers + 32));
  }
}

TEST(MxFp4Test, RecodeRow_KeepsTheNumbers_AsQ8_0) {
  for (const NumberType type : {NumberType::kMxFp4, NumberType::kMxFp4Pairs}) {
    MxFp4Row row(type);
    for (const int scale : {104, 110, 127, 142}) {  // scales of 2^-23 to 2^15
      (type == NumberType::kMxFp4 ? row.bytes[17] : row.scales[1]) = std::byte(scale);
      std::vector<std::byte> recoded(static_cast<size_t>(RowBytes(NumberType::kQ8_0, 32)));
      float before[32], after[32];
      DecodeRow(row.weight, 0, 32, 32, before);
      RecodeRow(row.weight, 0, 32, 32, recoded.data());
      DecodeRow({NumberType::kQ8_0, recoded.data(), 1, 32, RowBytes(NumberType::kQ8_0, 32)}, 0, 0, 32, after);
      EXPECT_TRUE(std::equal(before, before + 32, after)) << "scale " << scale;
    }
  }
}

TEST(MxFp4Test, DecodeRow_GivesNaN_WhenABlocksScaleIsNaN) {
  MxFp4Row row(NumberType::kMxFp4);
  row.bytes[0] = std::byte(255);
  float numbers[32];
  DecodeRow(row.weight, 0, 0, 32, numbers);
  EXPECT_TRUE(std::isnan(numbers[5]));
}

}  // namespace
}  // namespace quire::kernels
