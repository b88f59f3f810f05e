// Tests matrices of GPTQ, AWQ, FP8, compressed-tensors, ModelOpt and bitsandbytes. The tests write the published
// layouts by their own code, compare the position of each number in a file, and check refusals.
#include "comm/model/formats/quantized_matrices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/model_files.h"
#include "comm/model/quantization_config.h"
#include "comm/model/tensor_mismatch.h"
#include "tests/support/error_of.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Tensors of numbers that a test chooses, and the memory of their bytes.
class Parts {
 public:
  template <class T>
  Parts& Add(const std::string& name, NumberType type, std::vector<int64_t> shape, const std::vector<T>& numbers) {
    std::vector<std::byte>& bytes = rooms_.emplace_back(numbers.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    tensors_[name] = {type, std::move(shape), bytes};
    return *this;
  }
  Parts& Words(const std::string& name, std::vector<int64_t> shape, const std::vector<uint32_t>& words) {
    return Add(name, NumberType::kInt32, std::move(shape), words);
  }
  Parts& Floats(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& numbers) {
    return Add(name, NumberType::kF32, std::move(shape), numbers);
  }
  Parts& Drop(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }

  TensorMap Join(const StoredQuants& quants) const {
    TensorMap joined = tensors_;
    JoinQuantized(joined, quants, "model");
    return joined;
  }
  std::string Refusal(const StoredQuants& quants) const {
    return ErrorThrownBy([&] { Join(quants); });
  }

 private:
  std::deque<std::vector<std::byte>> rooms_;
  TensorMap tensors_;
};

std::vector<float> Decoded(const Tensor& tensor, int64_t row) {
  std::vector<float> numbers(static_cast<size_t>(tensor.cols()));
  tensor.scaled->Decode(row, 0, tensor.cols(), numbers.data());
  return numbers;
}

using Method = StoredQuants::Method;

constexpr int64_t kRows = 8, kCols = 16, kGroups = 2;
/// Returns a made-up code from 0 to 15. Neighbours in a row or a column mostly have different codes.
uint32_t Code(int64_t row, int64_t col) { return static_cast<uint32_t>(row * 5 + col * 3 + row * col) % 16; }
uint32_t ZeroCode(int64_t row, int64_t group) { return static_cast<uint32_t>(row * 3 + group * 7 + 1) % 16; }
float Scale(int64_t row, int64_t group) { return 0.5f + static_cast<float>(row) + 16 * static_cast<float>(group); }

/// Returns a matrix in GPTQ's layout: words [cols / 8, rows], zeros and scales [groups, ..]. `order` permutes the zeros
/// in a word, as in AWQ.
Parts GptqParts(const std::vector<int>& order = {0, 1, 2, 3, 4, 5, 6, 7}) {
  std::vector<uint32_t> words(kCols / 8 * kRows), zeros(kGroups);
  std::vector<float> scales;
  for (int64_t col = 0; col < kCols; ++col) {
    for (int64_t row = 0; row < kRows; ++row)
      words[static_cast<size_t>(col / 8 * kRows + row)] |= Code(row, col) << (4 * (col % 8));
  }
  for (int64_t group = 0; group < kGroups; ++group) {
    for (int64_t i = 0; i < 8; ++i)
      zeros[static_cast<size_t>(group)] |= ZeroCode(order[static_cast<size_t>(i)], group) << (4 * i);
    for (int64_t row = 0; row < kRows; ++row) scales.push_back(Scale(row, group));
  }
  Parts parts;
  parts.Words("m.qweight", {kCols / 8, kRows}, words)
      .Words("m.qzeros", {kGroups, 1}, zeros)
      .Floats("m.scales", {kGroups, kRows}, scales);
  return parts;
}
constexpr StoredQuants kGptq = {.method = Method::kGptq, .bits = 4, .group = 8, .zero_offset = 1};

TEST(QuantizedMatricesTest, GptqMatrix_IsDecodedByItsLayout) {
  for (const int offset : {0, 1}) {
    StoredQuants quants = kGptq;
    quants.zero_offset = offset;
    const Parts parts = GptqParts();
    const TensorMap tensors = parts.Join(quants);
    ASSERT_EQ(tensors.size(), 1u);
    const Tensor& weight = tensors.at("m.weight");
    EXPECT_EQ(weight.shape, (std::vector<int64_t>{kRows, kCols}));
    for (int64_t row = 0; row < kRows; ++row) {
      const std::vector<float> numbers = Decoded(weight, row);
      for (int64_t col = 0; col < kCols; ++col) {
        const int zero = static_cast<int>(ZeroCode(row, col / 8)) + offset;
        EXPECT_EQ(numbers[static_cast<size_t>(col)],
                  Scale(row, col / 8) * static_cast<float>(static_cast<int>(Code(row, col)) - zero))
            << row << ", " << col;
      }
    }
  }
}

TEST(QuantizedMatricesTest, GptqMatrix_MayHaveGroupsOfScatteredColumns) {
  std::vector<int32_t> groups;
  for (int32_t col = 0; col < kCols; ++col) groups.push_back(col % 2);
  Parts parts = GptqParts();
  parts.Add("m.g_idx", NumberType::kInt32, {kCols}, groups);
  const TensorMap tensors = parts.Join(kGptq);
  const ScaledMatrix& matrix = *tensors.at("m.weight").scaled;
  matrix.Check("model");
  EXPECT_FALSE(matrix.InOrder());
  const std::vector<float> numbers = Decoded(tensors.at("m.weight"), 3);
  for (int64_t col = 0; col < kCols; ++col) {
    const int zero = static_cast<int>(ZeroCode(3, col % 2)) + 1;
    EXPECT_EQ(numbers[static_cast<size_t>(col)],
              Scale(3, col % 2) * static_cast<float>(static_cast<int>(Code(3, col)) - zero));
  }
  for (const int32_t wrong : {-1, 2, 1 << 30}) {
    groups[5] = wrong;
    parts.Add("m.g_idx", NumberType::kInt32, {kCols}, groups);
    const TensorMap bad = parts.Join(kGptq);
    EXPECT_EQ(ErrorThrownBy([&] { bad.at("m.weight").scaled->Check("model"); }),
              fmt::format("model: column 5 is of group {}, and there are 2 groups", wrong));
  }
}

TEST(QuantizedMatricesTest, AwqMatrix_HasTheEvenRowsOfAWordBeforeTheOddRows) {
  const std::vector<int> order = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<uint32_t> words(kCols);
  for (int64_t col = 0; col < kCols; ++col) {
    for (int64_t i = 0; i < 8; ++i)
      words[static_cast<size_t>(col)] |= Code(order[static_cast<size_t>(i)], col) << (4 * i);
  }
  Parts parts = GptqParts(order);
  parts.Words("m.qweight", {kCols, kRows / 8}, words);
  const TensorMap tensors = parts.Join({.method = Method::kAwq, .bits = 4, .group = 8});
  for (int64_t row = 0; row < kRows; ++row) {
    const std::vector<float> numbers = Decoded(tensors.at("m.weight"), row);
    for (int64_t col = 0; col < kCols; ++col) {
      const int code = static_cast<int>(Code(row, col)) - static_cast<int>(ZeroCode(row, col / 8));
      EXPECT_EQ(numbers[static_cast<size_t>(col)], Scale(row, col / 8) * static_cast<float>(code));
    }
  }
}

TEST(QuantizedMatricesTest, GptqMatrixOf8Bits_HasFourNumbersInAWord) {
  Parts parts;
  parts.Words("m.qweight", {2, 4}, {0x04030201, 0x14131211, 0xf4f3f2f1, 0x24232221, 5, 6, 7, 8})
      .Words("m.qzeros", {1, 1}, {0x7f7f7f7f})
      .Floats("m.scales", {1, 4}, {1, 2, 4, 8});
  const TensorMap tensors = parts.Join({.method = Method::kGptq, .bits = 8, .group = -1, .zero_offset = 1});
  EXPECT_EQ(Decoded(tensors.at("m.weight"), 0), (std::vector<float>{-127, -126, -125, -124, -123, -128, -128, -128}));
  EXPECT_EQ(Decoded(tensors.at("m.weight"), 2)[0], 4 * (0xf1 - 128));
}

TEST(QuantizedMatricesTest, Parts_AreRefusedByName_WhenMissingOrMisshapen) {
  const Parts good = GptqParts();
  const auto with = [&](const auto& change) {
    Parts parts = GptqParts();
    change(parts);
    return parts.Refusal(kGptq);
  };
  EXPECT_EQ(good.Refusal(kGptq), "");
  EXPECT_EQ(with([](Parts& p) { p.Drop("m.scales"); }), "model: tensor m.scales is missing");
  EXPECT_EQ(with([](Parts& p) { p.Drop("m.qzeros"); }), "model: tensor m.qzeros is missing");
  EXPECT_EQ(with([](Parts& p) {
              p.Floats("m.scales", {1, 8}, std::vector<float>(8));
            }),
            "model: tensor m.scales is [1, 8] instead of [2, 8]");
  EXPECT_EQ(with([](Parts& p) {
              p.Words("m.scales", {2, 8}, std::vector<uint32_t>(16));
            }),
            "model: tensor m.scales holds I32 numbers, which is not supported there");
  EXPECT_EQ(with([](Parts& p) {
              p.Words("m.qzeros", {1, 2}, {1, 2});
            }),
            "model: tensor m.qzeros is [1, 2] instead of [2, 1]");
  EXPECT_EQ(with([](Parts& p) { p.Words("m.g_idx", {8}, std::vector<uint32_t>(8)); }),
            "model: tensor m.g_idx is [8] instead of [16]");
  EXPECT_EQ(with([](Parts& p) {
              p.Words("m.qweight", {2, 6}, std::vector<uint32_t>(12));
            }),
            "model: tensor m.qweight has 6 rows, which do not fill words of 8");
  EXPECT_EQ(with([](Parts& p) { p.Words("m.qweight", {16}, std::vector<uint32_t>(16)); }),
            "model: tensor m.qweight is [16] instead of a matrix");
  EXPECT_EQ(with([](Parts& p) {
              p.Words("m.qweight", {0, int64_t{1} << 62}, {});
            }),
            "model: tensor m.qweight is [0, 4611686018427387904] instead of a matrix");
  EXPECT_EQ(with([](Parts& p) { p.Floats("m.weight", {1}, {1}); }), "model: tensor m.weight is there in two forms");
}

TEST(QuantizedMatricesTest, FromFp8_DecodesEveryByteOfE4M3) {
  for (int i = 0; i < 256; ++i) {
    const float value = FromFp8(static_cast<std::byte>(i));
    const int exponent = i >> 3 & 15, mantissa = i & 7;
    if (exponent == 15 && mantissa == 7) {
      EXPECT_TRUE(std::isnan(value)) << i;
      continue;
    }
    const double size = exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    EXPECT_EQ(value, static_cast<float>(i < 128 ? size : -size)) << i;
  }
  EXPECT_EQ(FromFp8(std::byte{0x7e}), 448);
}

TEST(QuantizedMatricesTest, ScalesOfFp8_MayCoverTheMatrixRowsGroupsOrBlocks) {
  const StoredQuants quants = {.method = Method::kFloat8, .block_rows = 2, .block_cols = 4};
  const auto decoded = [&](std::vector<int64_t> shape, const std::vector<float>& scales, const char* part) {
    Parts parts;
    parts
        .Add("m.weight", NumberType::kFp8E4M3, {3, 6}, std::vector<uint8_t>(18, 0x38))  // each number is 1
        .Floats(part, std::move(shape), scales)
        .Floats("m.input_scale", {}, {3});
    const TensorMap tensors = parts.Join(quants);
    EXPECT_EQ(tensors.size(), 1u);
    std::vector<std::vector<float>> rows;
    for (int64_t row = 0; row < 3; ++row) rows.push_back(Decoded(tensors.at("m.weight"), row));
    return rows;
  };
  using Rows = std::vector<std::vector<float>>;
  const auto same = [](float a, float b, float c) {
    return Rows{std::vector<float>(6, a), std::vector<float>(6, b), std::vector<float>(6, c)};
  };
  EXPECT_EQ(decoded({}, {7}, "m.weight_scale"), same(7, 7, 7));
  EXPECT_EQ(decoded({1}, {7}, "m.weight_scale_inv"), same(7, 7, 7));
  EXPECT_EQ(decoded({3, 1}, {1, 2, 3}, "m.weight_scale"), same(1, 2, 3));
  EXPECT_EQ(decoded({3}, {1, 2, 3}, "m.weight_scale"), same(1, 2, 3));
  EXPECT_EQ(decoded({2, 2}, {1, 2, 3, 4}, "m.weight_scale_inv"),
            (Rows{{1, 1, 1, 1, 2, 2}, {1, 1, 1, 1, 2, 2}, {3, 3, 3, 3, 4, 4}}));
  EXPECT_EQ(decoded({3, 2}, {1, 2, 3, 4, 5, 6}, "m.weight_scale"),
            (Rows{{1, 1, 1, 2, 2, 2}, {3, 3, 3, 4, 4, 4}, {5, 5, 5, 6, 6, 6}}));
  EXPECT_THAT(
      ErrorThrownBy([&] {
        decoded({2}, {1, 2}, "m.weight_scale");
      }),
      HasSubstr("m.weight_scale is [2], which are not scales of the rows, groups or blocks of a matrix [3, 6]"));
  EXPECT_THAT(ErrorThrownBy([&] { decoded({3, 0}, {}, "m.weight_scale"); }), HasSubstr("which are not scales"));
  EXPECT_THAT(ErrorThrownBy([&] {
                decoded({3, 4}, std::vector<float>(12), "m.weight_scale");
              }),
              HasSubstr("which are not scales"));
  EXPECT_THAT(ErrorThrownBy([&] { decoded({1, 1, 1}, {1}, "m.weight_scale"); }), HasSubstr("more than two dimensions"));
  EXPECT_EQ(ErrorThrownBy([&] { decoded({1}, {1}, "m.scale"); }), "model: tensor m.weight_scale is missing");
}

TEST(QuantizedMatricesTest, CompressedTensors_PackNumbersAlongRows_AndZerosAlongColumns) {
  // A matrix [3, 4] of 4 bits: the zeros of three rows do not fill a word, nor do the four columns of a row.
  Parts parts;
  parts.Words("m.weight_packed", {3, 1}, {0x3210, 0x7654, 0xba98})
      .Add("m.weight_shape", NumberType::kInt64, {2}, std::vector<int64_t>{3, 4})
      .Floats("m.weight_scale", {3, 2}, {1, 10, 100, 1000, 2, 20})
      .Words("m.weight_zero_point", {1, 2}, {0x321, 0x654})
      .Words("m.weight_g_idx", {4}, std::vector<uint32_t>(4, 0xffffffff));
  const StoredQuants quants = {.method = Method::kCompressedTensors};
  const TensorMap tensors = parts.Join(quants);
  const Tensor& weight = tensors.at("m.weight");
  EXPECT_EQ(Decoded(weight, 0), (std::vector<float>{-1, 0, -20, -10}));
  EXPECT_EQ(Decoded(weight, 1), (std::vector<float>{200, 300, 1000, 2000}));
  EXPECT_EQ(Decoded(weight, 2), (std::vector<float>{10, 12, 80, 100}));
  parts.Drop("m.weight_zero_point");
  EXPECT_EQ(Decoded(parts.Join(quants).at("m.weight"), 0), (std::vector<float>{-8, -7, -60, -50}));
  parts.Add("m.weight_shape", NumberType::kInt64, {2}, std::vector<int64_t>{3, 100});
  EXPECT_EQ(parts.Refusal(quants),
            "model: tensor m.weight_packed is I32 [3, 1], which is no matrix [3, 100] of 4 or 8 bits");
  parts.Add("m.weight_shape", NumberType::kInt64, {2}, std::vector<int64_t>{3, INT64_MAX});
  EXPECT_THAT(parts.Refusal(quants), HasSubstr("which is no matrix"));
  parts.Drop("m.weight_shape");
  EXPECT_EQ(parts.Refusal(quants), "model: tensor m.weight_shape is missing");
}

TEST(QuantizedMatricesTest, BytesOfCompressedTensors_AreSigned) {
  Parts parts;
  parts.Add("m.weight", NumberType::kInt8, {2, 3}, std::vector<int8_t>{-128, 0, 127, 1, -1, 2})
      .Floats("m.weight_scale", {2, 1}, {1, 10});
  const StoredQuants quants = {.method = Method::kCompressedTensors};
  EXPECT_EQ(Decoded(parts.Join(quants).at("m.weight"), 0), (std::vector<float>{-128, 0, 127}));
  parts.Add("m.weight_zero_point", NumberType::kInt8, {2, 1}, std::vector<int8_t>{-128, 3});
  EXPECT_EQ(Decoded(parts.Join(quants).at("m.weight"), 0), (std::vector<float>{0, 128, 255}));
  EXPECT_EQ(Decoded(parts.Join(quants).at("m.weight"), 1), (std::vector<float>{-20, -40, -10}));
  parts.Add("m.weight_zero_point", NumberType::kInt8, {2}, std::vector<int8_t>{-128, 3});
  EXPECT_EQ(parts.Refusal(quants), "model: tensor m.weight_zero_point is [2] instead of [2, 1]");
}

/// Packs 4-bit codes into bytes. The first code of a pair is in the byte's high half if `high_first`, else in its low
/// half.
std::vector<uint8_t> Packed(const std::vector<uint32_t>& codes, bool high_first) {
  std::vector<uint8_t> bytes(codes.size() / 2);
  for (size_t i = 0; i < codes.size(); ++i)
    bytes[i / 2] |= static_cast<uint8_t>(codes[i] << ((i % 2 == 0) == high_first ? 4 : 0));
  return bytes;
}

constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// Returns the codes of a matrix [3, 32], in which all 16 codes occur.
std::vector<uint32_t> Fp4Codes() {
  std::vector<uint32_t> codes;
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t col = 0; col < 32; ++col) codes.push_back(Code(row, col));
  }
  return codes;
}

TEST(QuantizedMatricesTest, NvFp4_HasAScaleFor16Columns_AndOneForAllScales) {
  const std::vector<uint8_t> scales = {0x38, 0x40, 0x30, 0x7e, 0x48, 0x01};  // 1, 2, 0.5, 448, 4, 2^-9
  const float values[] = {1, 2, 0.5f, 448, 4, 0x1p-9f};
  const auto expect = [&](const Parts& parts, Method method, float whole) {
    const TensorMap tensors = parts.Join({.method = method});
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors.at("m.weight").shape, (std::vector<int64_t>{3, 32}));
    for (int64_t row = 0; row < 3; ++row) {
      const std::vector<float> numbers = Decoded(tensors.at("m.weight"), row);
      for (int64_t col = 0; col < 32; ++col)
        EXPECT_EQ(numbers[static_cast<size_t>(col)], kE2M1[Code(row, col)] * (values[row * 2 + col / 16] * whole));
      float part[5];  // a rank's columns may begin and end inside a group
      tensors.at("m.weight").scaled->Decode(row, 13, 5, part);
      EXPECT_TRUE(std::equal(part, part + 5, numbers.begin() + 13));
    }
  };
  Parts modelopt;
  modelopt.Add("m.weight", NumberType::kU8, {3, 16}, Packed(Fp4Codes(), false))
      .Add("m.weight_scale", NumberType::kFp8E4M3, {3, 2}, scales)
      .Floats("m.weight_scale_2", {}, {0.25f})
      .Floats("m.input_scale", {}, {3});
  expect(modelopt, Method::kModelOpt, 0.25f);
  Parts compressed;
  compressed.Add("m.weight_packed", NumberType::kU8, {3, 16}, Packed(Fp4Codes(), false))
      .Add("m.weight_scale", NumberType::kFp8E4M3, {3, 2}, scales)
      .Floats("m.weight_global_scale", {1}, {8})
      .Floats("m.input_global_scale", {1}, {3});
  expect(compressed, Method::kCompressedTensors, 0.125f);
}

TEST(QuantizedMatricesTest, PartsOfNvFp4_AreRefusedByName_WhenMissingOrMisshapen) {
  const auto with = [&](const auto& change) {
    Parts parts;
    parts.Add("m.weight", NumberType::kU8, {3, 16}, Packed(Fp4Codes(), false))
        .Add("m.weight_scale", NumberType::kFp8E4M3, {3, 2}, std::vector<uint8_t>(6, 0x38))
        .Floats("m.weight_scale_2", {}, {1});
    change(parts);
    return parts.Refusal({.method = Method::kModelOpt});
  };
  EXPECT_EQ(with([](Parts&) {}), "");
  EXPECT_EQ(with([](Parts& p) { p.Drop("m.weight_scale"); }), "model: tensor m.weight_scale is missing");
  EXPECT_EQ(with([](Parts& p) { p.Drop("m.weight_scale_2"); }), "model: tensor m.weight_scale_2 is missing");
  EXPECT_EQ(with([](Parts& p) { p.Floats("m.weight_scale_2", {}, {0}); }), "model: tensor m.weight_scale_2 is 0");
  EXPECT_EQ(with([](Parts& p) {
              p.Floats("m.weight_scale_2", {2}, {1, 1});
            }),
            "model: tensor m.weight_scale_2 is [2] instead of [1]");
  EXPECT_EQ(with([](Parts& p) {
              p.Floats("m.weight_scale", {3, 2}, std::vector<float>(6));
            }),
            "model: tensor m.weight_scale holds F32 numbers, which is not supported there");
  EXPECT_EQ(with([](Parts& p) { p.Add("m.weight_scale", NumberType::kFp8E4M3, {6}, std::vector<uint8_t>(6)); }),
            "model: tensor m.weight_scale is [6] instead of [3, 2]");
  EXPECT_EQ(with([](Parts& p) {
              p.Add("m.weight", NumberType::kU8, {3, 4}, std::vector<uint8_t>(12));
            }),
            "model: tensor m.weight has 8 columns, which are not groups of 16");
  EXPECT_EQ(with([](Parts& p) { p.Add("m.weight", NumberType::kU8, {48}, std::vector<uint8_t>(48)); }),
            "model: tensor m.weight is [48]: only matrices may be quantised");
}

TEST(QuantizedMatricesTest, ScalesThatAreBytes_ArePowersOfTwo_InMxFp4AndMxFp8) {
  Parts fp4;
  fp4.Add("m.weight_packed", NumberType::kU8, {3, 16}, Packed(Fp4Codes(), false))
      .Add("m.weight_scale", NumberType::kU8, {3, 1}, std::vector<uint8_t>{127, 128, 120});
  const TensorMap tensors = fp4.Join({.method = Method::kCompressedTensors});
  EXPECT_EQ(tensors.at("m.weight").type, NumberType::kMxFp4Pairs);
  EXPECT_EQ(tensors.at("m.weight").shape, (std::vector<int64_t>{3, 32}));
  EXPECT_EQ(tensors.at("m.weight").scales.size(), 3u);
  const auto decoded = [](Method method, const char* part) {
    Parts parts;
    parts
        .Add("m.weight", NumberType::kFp8E4M3, {2, 64}, std::vector<uint8_t>(128, 0x3c))  // 1.5
        .Add(part, NumberType::kU8, {2, 2}, std::vector<uint8_t>{127, 130, 0, 255});
    const TensorMap joined = parts.Join({.method = method});
    return std::pair(Decoded(joined.at("m.weight"), 0), Decoded(joined.at("m.weight"), 1));
  };
  for (const Method method : {Method::kFloat8, Method::kModelOpt, Method::kCompressedTensors}) {
    for (const char* part : {"m.weight_scale", "m.weight_scale_inv"}) {
      const auto [first, second] = decoded(method, part);
      EXPECT_EQ(first[31], 1.5f);
      EXPECT_EQ(first[32], 12);
      EXPECT_EQ(second[0], 1.5f * 0x1p-127f);
      EXPECT_TRUE(std::isnan(second[32]));
    }
  }
}

/// Returns a matrix [3, 10] in bitsandbytes' 4-bit format. A block is 4 consecutive numbers, and may begin in one row
/// and end in the next.
Parts BitsAndBytesParts(const std::string& type, bool nested) {
  std::vector<uint32_t> codes;
  for (uint32_t i = 0; i < 30; ++i) codes.push_back(i * 7 % 16);
  std::vector<float> map, scales, numbers(256);
  for (int i = 0; i < 16; ++i) map.push_back(static_cast<float>(i) - 7.5f);
  for (int i = 0; i < 8; ++i) scales.push_back(static_cast<float>(1 << i));
  for (int i = 0; i < 256; ++i) numbers[static_cast<size_t>(i)] = static_cast<float>(i) / 4;
  Parts parts;
  parts.Add("m.weight", NumberType::kU8, {15, 1}, Packed(codes, true)).Floats("m.weight.quant_map", {16}, map);
  std::string state = R"({"quant_type":")" + type + R"(","blocksize":4,"dtype":"bfloat16","shape":[3,10])";
  if (nested) {
    state += R"(,"nested_blocksize":3,"nested_dtype":"float32","nested_offset":0.5)";
    parts.Add("m.weight.absmax", NumberType::kU8, {8}, std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 255})
        .Floats("m.weight.nested_absmax", {3}, {1, 10, 100})
        .Floats("m.weight.nested_quant_map", {256}, numbers);
  } else {
    parts.Floats("m.weight.absmax", {8}, scales);
  }
  state += "}";
  const auto bytes = static_cast<int64_t>(state.size());
  parts.Add("m.weight.quant_state.bitsandbytes__" + type, NumberType::kU8, {bytes},
            std::vector<char>(state.begin(), state.end()));
  return parts;
}

TEST(QuantizedMatricesTest, BlocksOfBitsAndBytes_ContinueInTheNextRow_WithPlainAndWithQuantisedScales) {
  for (const bool nested : {false, true}) {
    const Parts parts = BitsAndBytesParts("nf4", nested);
    const TensorMap tensors = parts.Join({.method = Method::kBitsAndBytes});
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors.at("m.weight").shape, (std::vector<int64_t>{3, 10}));
    for (int64_t row = 0; row < 3; ++row) {
      const std::vector<float> numbers = Decoded(tensors.at("m.weight"), row);
      for (int64_t col = 0; col < 10; ++col) {
        const int64_t place = row * 10 + col, block = place / 4;
        const float outer[] = {1, 10, 100};
        const float byte = block == 7 ? 255 : static_cast<float>(block);
        const float scale = nested ? byte / 4 * outer[block / 3] + 0.5f : static_cast<float>(1 << block);
        EXPECT_EQ(numbers[static_cast<size_t>(col)], scale * (static_cast<float>(place * 7 % 16) - 7.5f)) << place;
      }
      float part[3];  // a rank's columns may begin and end inside a block
      tensors.at("m.weight").scaled->Decode(row, 5, 3, part);
      EXPECT_TRUE(std::equal(part, part + 3, numbers.begin() + 5));
    }
  }
}

TEST(QuantizedMatricesTest, PartsOfBitsAndBytes_AreRefusedByName_WhenMissingOrMisshapen) {
  const auto with = [&](const auto& change) {
    Parts parts = BitsAndBytesParts("fp4", true);
    change(parts);
    return parts.Refusal({.method = Method::kBitsAndBytes});
  };
  const auto with_state = [&](const std::string& state) {
    return with([&](Parts& p) {
      p.Add("m.weight.quant_state.bitsandbytes__fp4", NumberType::kU8, {static_cast<int64_t>(state.size())},
            std::vector<char>(state.begin(), state.end()));
    });
  };
  EXPECT_EQ(with([](Parts&) {}), "");
  for (const char* part :
       {"weight", "weight.quant_map", "weight.absmax", "weight.nested_absmax", "weight.nested_quant_map"}) {
    EXPECT_EQ(with([&](Parts& p) { p.Drop(std::string("m.") + part); }),
              fmt::format("model: tensor m.{} is missing", part));
  }
  EXPECT_EQ(with([](Parts& p) { p.Add("m.weight", NumberType::kU8, {14}, std::vector<uint8_t>(14)); }),
            "model: tensor m.weight has 14 bytes, which are not the codes of a matrix [3, 10]");
  EXPECT_EQ(with([](Parts& p) { p.Floats("m.weight.absmax", {8}, std::vector<float>(8)); }),
            "model: tensor m.weight.absmax holds F32 numbers, which is not supported there");
  EXPECT_EQ(with([](Parts& p) {
              p.Floats("m.weight.nested_absmax", {2}, {1, 2});
            }),
            "model: tensor m.weight.nested_absmax is [2] instead of [3]");
  const std::string state = "model: tensor m.weight.quant_state.bitsandbytes__fp4 ";
  EXPECT_THAT(with_state("{"), testing::StartsWith(state + "is no JSON"));
  EXPECT_EQ(with_state(R"({"quant_type":"fp4","blocksize":4,"shape":[30]})"),
            state + "describes no matrix: only matrices may be quantised");
  EXPECT_EQ(with_state(R"({"quant_type":"nf4","blocksize":4,"shape":[3,10]})"),
            state + "has another quant_type than its name says");
  EXPECT_EQ(with_state(R"({"quant_type":"fp4","blocksize":0,"shape":[3,10]})"),
            state + "has no blocksize from 1 to 1048576");
  EXPECT_EQ(with_state(R"({"quant_type":"fp4","blocksize":4,"shape":[3,10],"nested_blocksize":3})"),
            state + "has no nested_offset");
}

TEST(QuantizedMatricesTest, Int8OfBitsAndBytes_IsScaledByTheLargestNumberOfEachRow) {
  const auto parts = [] {
    Parts made;
    made.Add("m.weight", NumberType::kInt8, {2, 3}, std::vector<int8_t>{127, -127, 1, 0, 64, -128})
        .Floats("m.SCB", {2}, {127, 254})
        .Add("m.weight_format", NumberType::kU8, {}, std::vector<uint8_t>{0});
    return made;
  };
  const StoredQuants quants = {.method = Method::kBitsAndBytes};
  const Parts good = parts();
  const TensorMap tensors = good.Join(quants);
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_THAT(Decoded(tensors.at("m.weight"), 0), testing::Pointwise(testing::FloatEq(), {127, -127, 1}));
  EXPECT_THAT(Decoded(tensors.at("m.weight"), 1), testing::Pointwise(testing::FloatEq(), {0, 128, -256}));
  Parts other = parts();
  other.Add("m.weight_format", NumberType::kU8, {}, std::vector<uint8_t>{2});
  EXPECT_EQ(other.Refusal(quants), "model: tensor m.weight_format is not 0: only matrices in rows are supported");
  other = parts();
  other.Floats("m.SCB", {3}, {1, 2, 3});
  EXPECT_EQ(other.Refusal(quants), "model: tensor m.SCB is [3] instead of [2]");
}

TEST(QuantizedMatricesTest, UnsupportedMethodsAndSettings_AreRefusedByName) {
  const auto read = [](const char* text) {
    const Json json = Json::parse(text);
    return StoredQuantsFromHf(HfConfig(json, "c"));
  };
  EXPECT_EQ(read("{}"), StoredQuants());
  EXPECT_EQ(read(R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}})"),
            (StoredQuants{.method = Method::kGptq, .bits = 4, .group = 128, .zero_offset = 1}));
  EXPECT_EQ(read(R"({"quantization_config":{"quant_method":"gptq","bits":8,"checkpoint_format":"gptq_v2",
                     "dynamic":{"-:.*mlp.*":{}}}})"),
            (StoredQuants{.method = Method::kGptq, .bits = 8, .group = -1, .zero_offset = 0}));
  EXPECT_EQ(read(R"({"quantization_config":{"quant_method":"awq","bits":4,"group_size":64,"version":"GEMM"}})"),
            (StoredQuants{.method = Method::kAwq, .bits = 4, .group = 64}));
  EXPECT_EQ(read(R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,64]}})"),
            (StoredQuants{.method = Method::kFloat8, .block_rows = 128, .block_cols = 64}));
  EXPECT_EQ(read(R"({"compression_config":{"quant_method":"compressed-tensors","format":"float-quantized",
                     "config_groups":{"a":{"weights":{"block_structure":[128,128]}},"b":{"weights":null}}}})"),
            (StoredQuants{.method = Method::kCompressedTensors, .block_rows = 128, .block_cols = 128}));
  const std::pair<const char*, const char*> refused[] = {
      {R"("quant_method":"hqq")",
       "c: quantization_config: quant_method \"hqq\" is not supported for this architecture; supported: gptq, awq, "
       "fp8, "
       "fbgemm_fp8, mxfp8, modelopt, bitsandbytes, compressed-tensors, auto-round, intel/auto-round; take the model in "
       "one of them, as GGUF, or unquantised with --quantization"},
      {R"("quant_method":"bitsandbytes","bnb_4bit_quant_type":"int3")", "bnb_4bit_quant_type \"int3\""},
      {R"("quant_method":"modelopt","quant_algo":"NVFP4_AWQ")", "quant_algo \"nvfp4_awq\""},
      {R"("quant_method":"compressed-tensors","format":"mxfp6-pack-quantized")", "format \"mxfp6-pack-quantized\""},
      {R"("bits":4)", "quant_method \"\""},
      {R"("quant_method":"gptq")", "quantization_config: bits is missing"},
      {R"("quant_method":"gptq","bits":3)", "bits = 3 is not supported; supported: 4, 8"},
      {R"("quant_method":"gptq","bits":4,"group_size":0)", "group_size = 0"},
      {R"("quant_method":"gptq","bits":4,"group_size":-2)", "group_size = -2"},
      {R"("quant_method":"gptq","bits":4,"checkpoint_format":"marlin")", "checkpoint_format \"marlin\""},
      {R"("quant_method":"gptq","bits":4,"is_marlin_format":true)", "is_marlin_format"},
      {R"("quant_method":"gptq","bits":4,"dynamic":{"+:.*":{"bits":8}})", "dynamic \"+:.*\""},
      {R"("quant_method":"awq","bits":8)", "bits = 8 is not supported; supported: 4"},
      {R"("quant_method":"awq","bits":4,"version":"gemv")", "version \"gemv\""},
      {R"("quant_method":"fp8","fmt":"e5m2")", "fmt \"e5m2\""},
      {R"("quant_method":"fp8","weight_block_size":[128])", "weight_block_size must be"},
      {R"("quant_method":"fp8","weight_block_size":[0,128])", "weight_block_size must be"},
      {R"("quant_method":"fp8","weight_block_size":[1e30,128])", "weight_block_size must be"},
      {R"("quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"})", "sparse-24-bitmask"},
      {R"("quant_method":"compressed-tensors","transform_config":{"a":1})", "transform_config"},
      {R"("quant_method":"compressed-tensors","config_groups":{"a":{"weights":{"block_structure":[1,2]}},
                                                               "b":{"weights":{"block_structure":[2,2]}}})",
       "the same for all"},
      {R"("quant_method":"compressed-tensors","config_groups":{"a":3})", "expected an object"},
  };
  for (const auto& [keys, message] : refused) {
    const std::string text = fmt::format("{{\"quantization_config\":{{{}}}}}", keys);
    EXPECT_THAT(ErrorThrownBy([&] { read(text.c_str()); }), HasSubstr(message)) << text;
  }
}

TEST(QuantizedMatricesTest, DamagedFiles_AreRefused_OrReadWithinBounds) {
  test::Random random(5);
  for (const std::string name : {"gptq_act", "awq", "packed", "int8", "fp8", "modelopt", "nvfp4_packed", "nf4"}) {
    const fs::path from = fs::path(QUIRE_TEST_DATA) / "models" / name;
    const TemporaryDirectory folder;
    const fs::path to = fs::path(folder.path()) / name;
    fs::copy(from, to);
    const std::string good = ReadTextFile(from / "model.safetensors", 1 << 20);
    uint64_t header = 0;
    std::memcpy(&header, good.data(), sizeof(header));
    int read = 0;
    for (int i = 0; i < 60; ++i) {
      std::string bad = good;
      // Every second file gets other digits in its header, and the other files get random bytes in their data.
      const bool shapes = i % 2 == 0;
      for (int64_t m = random.Between(1, 3); m > 0; --m) {
        const auto at = static_cast<size_t>(shapes ? 8 + random.Below(static_cast<int64_t>(header))
                                                   : static_cast<int64_t>(8 + header) +
                                                         random.Below(static_cast<int64_t>(good.size() - 8 - header)));
        if (!shapes) bad[at] = static_cast<char>(random.Bits());
        if (shapes && bad[at] >= '0' && bad[at] <= '9') bad[at] = static_cast<char>('0' + random.Below(10));
      }
      std::ofstream(to / "model.safetensors", std::ios::binary) << bad;
      try {
        const ModelFiles files = ModelFiles::Open(to);
        for (const Role role : {Role::kQuery, Role::kAttentionOut, Role::kDown}) {
          const Tensor& tensor = files.Get(role, 1);
          tensor.scaled->Check("model");
          for (int64_t row = 0; row < tensor.rows(); ++row) Decoded(tensor, row);
        }
        ++read;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()), "");
      }
    }
    EXPECT_GT(read, 10) << name;  // files with damaged data can mostly be read
  }
}

/// Opens a golden model with renamed tensors, and optionally without quantization_config; returns the error, or "".
std::string MatrixError(const std::string& model, const std::vector<std::pair<std::string, std::string>>& renamed,
                        bool quantized = true) {
  const TemporaryDirectory folder;
  const fs::path from = fs::path(QUIRE_TEST_DATA) / "models" / model, to = fs::path(folder.path()) / model;
  fs::copy(from, to);
  Json config = Json::parse(ReadTextFile(from / "config.json", 1 << 20));
  if (!quantized) config.erase("quantization_config");
  WriteTextFile(to / "config.json", config.dump());
  std::string bytes = ReadTextFile(from / "model.safetensors", 1 << 20);
  for (const auto& [name, other] : renamed) {
    EXPECT_EQ(name.size(), other.size());
    const size_t at = bytes.find('"' + name + '"');
    EXPECT_NE(at, std::string::npos) << name;
    bytes.replace(at + 1, name.size(), other);
  }
  std::ofstream(to / "model.safetensors", std::ios::binary) << bytes;
  return ErrorThrownBy([&] { ModelFiles::Open(to); });
}

TEST(QuantizedMatricesTest, Open_RefusesModels_WithMissingOrUnreadableTensors) {
  EXPECT_EQ(MatrixError("fp8_tensor", {}), "");
  EXPECT_THAT(MatrixError("fp8_tensor", {}, false), HasSubstr("model.layers.{0-1}.self_attn.q_proj.weight of F8_E4M3"));
  EXPECT_THAT(MatrixError("gptq", {}, false),
              testing::AllOf(HasSubstr("missing: model.layers.{0-1}.self_attn.q_proj.weight, "),
                             HasSubstr("unexpected: model.layers.{0-1}.mlp.down_proj.g_idx, ")));
  EXPECT_THAT(MatrixError("packed", {{"model.embed_tokens.weight", "model.embed_token_.weight"}}),
              testing::AllOf(HasSubstr("missing: model.embed_tokens.weight; "),
                             HasSubstr("unexpected: model.embed_token_.weight")));
}

/// The embedding of this model is quantised. Only an output head may be quantised.
TEST(QuantizedMatricesTest, Open_RefusesQuantisedEmbeddings) {
  const TemporaryDirectory folder;
  const fs::path from = fs::path(QUIRE_TEST_DATA) / "models" / "packed", to = fs::path(folder.path()) / "packed";
  fs::copy(from, to);
  const std::string bytes = ReadTextFile(from / "model.safetensors", 1 << 20);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const std::string data = bytes.substr(8 + length);
  const Json header = Json::parse(bytes.substr(8, length));
  Json changed;
  // The head and the embedding exchange their names: a plain head is allowed, a quantised embedding is not.
  for (const auto& [name, entry] : header.items()) {
    std::string other = name;
    if (name.starts_with("lm_head.")) other.replace(0, 7, "model.embed_tokens");
    if (name == "model.embed_tokens.weight") other = "lm_head.weight";
    changed[other] = entry;
  }
  const std::string text = changed.dump();
  length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  std::ofstream(to / "model.safetensors", std::ios::binary) << out << text << data;
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(to); }), HasSubstr("model.embed_tokens.weight of I8"));
}

TEST(TensorMismatchTest, ErrorOfMismatchedTensors_JoinsNames_ThatDifferOnlyInNumbers) {
  TensorMismatch mismatch;
  EXPECT_TRUE(mismatch.empty());
  for (int layer = 0; layer < 4; ++layer) {
    if (layer != 2) mismatch.missing.push_back(fmt::format("model.layers.{}.up.weight", layer));
    for (const int expert : {0, 1, 5}) mismatch.missing.push_back(fmt::format("l.{}.e.{}.w", layer, expert));
  }
  mismatch.missing.push_back("norm.weight");
  mismatch.unexpected = {"a.0.b.1.c", "a.1.b.0.c", "a.7.c"};
  mismatch.misshapen = {"x.0.w [1, 2] instead of [2, 1]", "x.1.w [1, 2] instead of [2, 1]"};
  EXPECT_EQ(mismatch.Text(),
            "missing: model.layers.{0-1,3}.up.weight, l.{0-3}.e.{0-1,5}.w, norm.weight; unexpected: a.0.b.1.c, "
            "a.1.b.0.c, a.7.c; of another shape or type: x.{0-1}.w [1, 2] instead of [2, 1]");
  EXPECT_FALSE(mismatch.empty());
  mismatch = {};
  for (int i = 0; i < 40; ++i) mismatch.missing.push_back(fmt::format("t{}", i));
  EXPECT_THAT(mismatch.Text(), testing::EndsWith("t30, t31 and 8 more"));
}

TEST(DummyWeightsTest, DummyModel_NeedsOnlyAConfig_AndIsTheSameInEveryProcess) {
  const TemporaryDirectory folder;
  const fs::path to = folder.path();
  const std::string golden = std::string(QUIRE_TEST_DATA) + "/models/";
  fs::copy(golden + "gqa/config.json", to / "config.json");
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(to); }), HasSubstr("holds neither model.safetensors"));
  const ModelFiles made_up = ModelFiles::Open(to, LoadFormat::kDummy);
  EXPECT_EQ(made_up.load_format(), LoadFormat::kDummy);
  EXPECT_EQ(made_up.Fingerprint(), ModelFiles::Open(to, LoadFormat::kDummy).Fingerprint());
  const ModelFiles real = ModelFiles::Open(golden + "gqa");
  EXPECT_NE(made_up.Fingerprint(), real.Fingerprint());
  EXPECT_EQ(made_up.TotalBytes(), real.TotalBytes());  // the made-up and the real model are bfloat16
  const Tensor &gate = made_up.Get(Role::kGate, 1), &up = made_up.Get(Role::kUp, 1);
  EXPECT_EQ(gate.shape, real.Get(Role::kGate, 1).shape);
  EXPECT_EQ(gate.type, NumberType::kBF16);
  EXPECT_NE(std::memcmp(gate.data.data(), up.data.data(), gate.data.size()), 0);
  double sum = 0, squares = 0;
  const auto count = static_cast<double>(gate.data.size()) / 2;
  for (size_t at = 0; at < gate.data.size(); at += 2) {
    uint16_t bits;
    std::memcpy(&bits, &gate.data[at], 2);
    const auto number = double{std::bit_cast<float>(static_cast<uint32_t>(bits) << 16)};
    EXPECT_LE(std::abs(number), 0.05);
    sum += number;
    squares += number * number;
  }
  EXPECT_NEAR(sum / count, 0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / count), 0.05 / std::sqrt(3), 0.003);
  const Tensor& norm = made_up.Get(Role::kFinalNorm);
  for (size_t at = 0; at < norm.data.size(); at += 2) EXPECT_EQ(std::to_integer<int>(norm.data[at + 1]), 0x3f);

  fs::copy(golden + "gptq/config.json", to / "config.json", fs::copy_options::overwrite_existing);
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(to, LoadFormat::kDummy); }),
              HasSubstr("load_format dummy makes plain weights only: take quantization_config out"));
}

}  // namespace
}  // namespace quire
