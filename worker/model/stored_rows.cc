#include "worker/model/stored_rows.h"

#include <cstring>
#include <vector>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/packed_weight.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

__extension__ using Float16 = _Float16;

/// Stores x as float16 and returns the rounded value.
float PutHalf(float x, std::byte* out) {
  const auto half = static_cast<Float16>(x);
  std::memcpy(out, &half, sizeof(half));
  return static_cast<float>(half);
}

/// True if every zero point of the integer matrix equals `zero`.
bool AllZerosAre(const ScaledMatrix& matrix, int zero) {
  if (matrix.zeros.data == nullptr) return matrix.zero == zero;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t group = 0; group < matrix.groups(); ++group) {
      if (matrix.Zero(row, group) != zero) return false;
    }
  }
  return true;
}

PackedForm FormOf(const ScaledMatrix& matrix) {
  constexpr NumberType kWide = NumberType::kF16;
  if (matrix.fp8 != nullptr) return {kWide, "products have no FP8"};
  if (matrix.codes != nullptr) return {kWide, "products have no NVFP4, NF4 and FP4"};
  if (!matrix.InOrder()) return {kWide, "act-order: neighbouring columns have scales of their own"};
  if (matrix.group % kernels::kQuantBlock != 0 && matrix.groups() > 1)
    return {kWide, "groups of columns that are no multiple of 32"};
  if (matrix.ints.bits == 4) return {AllZerosAre(matrix, 8) ? NumberType::kQ4_0 : NumberType::kQ4_1};
  if (AllZerosAre(matrix, 128)) return {NumberType::kQ8_0};
  return {kWide, "8-bit integers with zeros of their own"};
}

/// Writes one block of q4_0, q4_1 or q8_0. `ints` are the file's unsigned integers.
void PutBlock(NumberType type, const uint8_t* ints, float scale, int zero, std::byte* out) {
  const float d = PutHalf(scale, out);
  if (type == NumberType::kQ8_0) {
    for (int i = 0; i < kernels::kQuantBlock; ++i) out[2 + i] = static_cast<std::byte>(ints[i] - zero);
    return;
  }
  std::byte* nibbles = out + 2;
  if (type == NumberType::kQ4_1) {
    PutHalf(-d * static_cast<float>(zero), nibbles);
    nibbles += 2;
  }
  constexpr int kHalf = kernels::kQuantBlock / 2;
  for (int i = 0; i < kHalf; ++i) nibbles[i] = static_cast<std::byte>(ints[i] | ints[i + kHalf] << 4);
}

void RecodeInts(const ScaledMatrix& matrix, NumberType type, int64_t row, int64_t col, int64_t count, std::byte* out) {
  std::vector<uint8_t> ints(static_cast<size_t>(count));
  matrix.Ints(row, col, count, ints.data());
  int64_t known = -1;  // the group to which `scale` and `zero` belong
  float scale = 0;
  int zero = 0;
  for (int64_t at = 0; at < count; at += kernels::kQuantBlock, out += LayoutOf(type).block_bytes) {
    if (const int64_t group = (col + at) / matrix.group; group != known) {
      known = group;
      scale = matrix.scales.At(row, group);
      zero = matrix.Zero(row, group);
    }
    PutBlock(type, ints.data() + at, scale, zero, out);
  }
}

}  // namespace

std::optional<NumberType> TypeOfPlain(Quantization quantization) {
  switch (quantization) {
    case Quantization::kNone:
      return std::nullopt;
    case Quantization::kInt8:
      return NumberType::kQ8_0;
    case Quantization::kInt4:
      return NumberType::kQ4_1;
    case Quantization::kFp8:
      return NumberType::kFp8E4M3;
  }
  Fail("quantization {} is unknown", static_cast<int>(quantization));
}

int64_t DecodeBlock(const Tensor& tensor) { return tensor.scaled != nullptr ? 1 : LayoutOf(tensor.type).block_numbers; }

void DecodeRow(const Tensor& tensor, int64_t row, int64_t col, int64_t count, float* out) {
  if (tensor.scaled == nullptr) return kernels::DecodeRow(AsWeight(tensor), row, col, count, out);
  tensor.scaled->Decode(row, col, count, out);
}

PackedForm FormOf(const Tensor& tensor, const char* what) {
  if (tensor.scaled == nullptr) return {kernels::PackedType(AsWeight(tensor).type)};
  tensor.scaled->Check(what);
  return FormOf(*tensor.scaled);
}

void RecodeRow(const Tensor& tensor, NumberType type, int64_t row, int64_t col, int64_t count, std::byte* out) {
  if (tensor.scaled == nullptr) return kernels::RecodeRow(AsWeight(tensor), row, col, count, out);
  if (type != NumberType::kF16) return RecodeInts(*tensor.scaled, type, row, col, count, out);
  std::vector<float> numbers(static_cast<size_t>(count));
  tensor.scaled->Decode(row, col, count, numbers.data());
  for (int64_t i = 0; i < count; ++i) PutHalf(numbers[static_cast<size_t>(i)], out + 2 * i);
}

}  // namespace quire
