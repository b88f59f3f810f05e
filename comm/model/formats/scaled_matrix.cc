#include "comm/model/formats/scaled_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "comm/base/error.h"

namespace quire {

namespace {

__extension__ using Float16 = _Float16;

template <class T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// The position of neighbour i in AWQ's word of eight numbers.
constexpr std::array<int, 8> kEvensFirst = {0, 4, 1, 5, 2, 6, 3, 7};

template <class Word, int kBits>
void ReadAlongRow(const IntGrid& grid, int64_t row, int64_t col, int64_t count, uint8_t* out) {
  constexpr int64_t kPerWord = sizeof(Word) * 8 / kBits;
  constexpr auto kMask = static_cast<Word>((1u << kBits) - 1);
  const std::byte* words = grid.data + row * grid.row_stride * static_cast<int64_t>(sizeof(Word));
  for (const int64_t end = col + count; col < end;) {
    const int64_t at = col % kPerWord;
    auto word = Load<Word>(words + col / kPerWord * grid.col_stride * static_cast<int64_t>(sizeof(Word)));
    word = static_cast<Word>(word >> (at * kBits));
    for (int64_t i = at; i < kPerWord && col < end; ++i, ++col) {
      *out++ = static_cast<uint8_t>((word & kMask) ^ grid.flip);
      if constexpr (kPerWord > 1) word = static_cast<Word>(word >> kBits);
    }
  }
}

/// Reads words that each pack numbers of one column: each word contributes one number to the row, and the words of
/// neighbouring columns are apart.
template <class Word, int kBits>
void ReadAcrossWords(const IntGrid& grid, int64_t row, int64_t col, int64_t count, uint8_t* out) {
  constexpr int64_t kPerWord = sizeof(Word) * 8 / kBits;
  constexpr auto kMask = static_cast<Word>((1u << kBits) - 1);
  const auto neighbour = static_cast<size_t>(row % kPerWord);
  const int shift = kBits * (grid.evens_first ? kEvensFirst[neighbour] : static_cast<int>(neighbour));
  const int64_t step = grid.col_stride * static_cast<int64_t>(sizeof(Word));
  const std::byte* word =
      grid.data + row / kPerWord * grid.row_stride * static_cast<int64_t>(sizeof(Word)) + col * step;
  for (int64_t i = 0; i < count; ++i, word += step)
    out[i] = static_cast<uint8_t>((Load<Word>(word) >> shift & kMask) ^ grid.flip);
}

void Read(const IntGrid& grid, int64_t row, int64_t col, int64_t count, uint8_t* out) {
  const auto read = [&]<class Word, int kBits>() {
    if (grid.along_rows) return ReadAcrossWords<Word, kBits>(grid, row, col, count, out);
    ReadAlongRow<Word, kBits>(grid, row, col, count, out);
  };
  if (grid.bits == 4) return read.template operator()<uint32_t, 4>();
  if (grid.word_bytes == 4) return read.template operator()<uint32_t, 8>();
  read.template operator()<uint8_t, 8>();
}

constexpr float PowerOfTwo(int exponent) {
  float power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

/// Makes the values of E4M3 bytes: four exponent bits with a bias of 7, and three mantissa bits. Numbers with exponent
/// 0 have no leading one.
constexpr std::array<float, 256> MakeFp8Table() {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i) {
    const int exponent = i >> 3 & 15, mantissa = i & 7;
    const float size = exponent == 0 ? static_cast<float>(mantissa) * PowerOfTwo(-9)
                                     : static_cast<float>(8 + mantissa) * PowerOfTwo(exponent - 10);
    const bool number = exponent != 15 || mantissa != 7;
    table[static_cast<size_t>(i)] =
        (i < 128 ? 1.0f : -1.0f) * (number ? size : std::numeric_limits<float>::quiet_NaN());
  }
  return table;
}

constexpr std::array<float, 256> kFp8 = MakeFp8Table();

}  // namespace

float FromFp8(std::byte number) { return kFp8[std::to_integer<size_t>(number)]; }

namespace {

float ReadScale(NumberType type, const std::byte* from) {
  if (type == NumberType::kF32) return Load<float>(from);
  if (type == NumberType::kF16) return static_cast<float>(Load<Float16>(from));
  if (type == NumberType::kFp8E4M3) return FromFp8(*from);
  return std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(from)) << 16);
}

/// Decodes a byte of E8M0.
float FromPower(std::byte exponent) {
  constexpr int kNan = 255, kBias = 127;
  const int e = std::to_integer<int>(exponent);
  return e == kNan ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, e - kBias);
}

}  // namespace

float ScaleGrid::At(int64_t row, int64_t group) const {
  const int64_t place = row / rows_per_scale * row_stride + group * group_stride;
  const std::byte* from = data + place * ByteSize(type);
  switch (form) {
    case ScaleForm::kNumber:
      return factor * ReadScale(type, from);
    case ScaleForm::kPowerOfTwo:
      return factor * FromPower(*from);
    case ScaleForm::kNested:
      return factor * (Load<float>(numbers + 4 * std::to_integer<int64_t>(*from)) *
                           Load<float>(outer + 4 * (place / outer_block)) +
                       offset);
  }
  Fail("a scale of form {} is unknown", static_cast<int>(form));
}

int64_t ScaledMatrix::GroupOf(int64_t col) const {
  return column_groups == nullptr ? col / group : Load<int32_t>(column_groups + 4 * col);
}

void ScaledMatrix::Check(const std::string& what) const {
  for (int64_t col = 0; col < cols; ++col) {
    const int64_t named = GroupOf(col);
    if (named < 0 || named >= groups())
      Fail("{}: column {} is of group {}, and there are {} groups", what, col, named, groups());
  }
}

bool ScaledMatrix::InOrder() const {
  if (column_groups == nullptr) return true;
  for (int64_t col = 0; col < cols; ++col) {
    if (GroupOf(col) != col / group) return false;
  }
  return true;
}

void ScaledMatrix::Ints(int64_t row, int64_t col, int64_t count, uint8_t* out) const {
  Read(ints, row, col, count, out);
}

int ScaledMatrix::Zero(int64_t row, int64_t group_index) const {
  uint8_t stored = 0;
  if (zeros.data != nullptr) Read(zeros, row, group_index, 1, &stored);
  return zero + stored;
}

void ScaledMatrix::DecodeCodes(int64_t row, int64_t col, int64_t count, float* out) const {
  const int64_t first = row * cols;
  for (const int64_t end = col + count; col < end;) {
    const int64_t in_order = flat ? first + col : col, group_of = in_order / group;
    const int64_t group_end = std::min(end, col + (group_of + 1) * group - in_order);
    const float scale = flat ? scales.At(0, group_of) : scales.At(row, group_of);
    for (; col < group_end; ++col) {
      const int64_t place = first + col;
      const int shift = (place % 2 == 0) == high_first ? 4 : 0;
      const auto code = std::to_integer<size_t>(codes[place / 2] >> shift & std::byte{15});
      *out++ = scale * code_numbers[code];
    }
  }
}

void ScaledMatrix::Decode(int64_t row, int64_t col, int64_t count, float* out) const {
  if (codes != nullptr) return DecodeCodes(row, col, count, out);
  constexpr int64_t kAtOnce = 256;
  uint8_t stored[kAtOnce];
  for (const int64_t end = col + count; col < end;) {
    const int64_t part_end = std::min(end, col + kAtOnce);
    if (fp8 == nullptr) Ints(row, col, part_end - col, stored);
    for (const uint8_t* number = stored; col < part_end;) {
      const int64_t group_of = GroupOf(col);
      const int64_t group_end = column_groups != nullptr ? col + 1 : std::min(part_end, (group_of + 1) * group);
      const float scale = scales.At(row, group_of);
      if (fp8 != nullptr) {
        for (; col < group_end; ++col) *out++ = scale * FromFp8(fp8[row * cols + col]);
      } else {
        const int zero_of = Zero(row, group_of);
        for (; col < group_end; ++col) *out++ = scale * static_cast<float>(*number++ - zero_of);
      }
    }
  }
}

}  // namespace quire
