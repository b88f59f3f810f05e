// Reads matrices with separate scales: FP8 and int8 as MODULE.weight [rows, cols], and compressed-tensors' packed
// integers as MODULE.weight_packed, int32 words along a row. Reads the files of NVIDIA's ModelOpt, too. A scale belongs
// to the whole matrix, a row, a group of columns, or a block of rows and columns. FP8's weight_scale_inv is a factor
// like weight_scale, despite its name.
#include <cstring>

#include "comm/base/error.h"
#include "comm/model/formats/quantized_matrices.h"

namespace quire {

namespace {

constexpr int64_t kPackedWordBits = 32;
constexpr uint8_t kSigned = 0x80;
constexpr std::initializer_list<NumberType> kScalesOfFp8 = {NumberType::kF32, NumberType::kF16, NumberType::kBF16,
                                                            NumberType::kU8};

/// Returns numbers / of, rounded up, without overflow for any number in a file.
int64_t Blocks(int64_t numbers, int64_t of) { return numbers / of + (numbers % of != 0 ? 1 : 0); }

/// Sets the scales and the group of a matrix whose rows and columns are set. Scales that are bytes are powers of two,
/// as in MXFP8.
void SetScales(const QuantizedParts& parts, const std::string& module, const char* part, const Tensor& scales,
               const StoredQuants& quants, std::initializer_list<NumberType> types, ScaledMatrix& matrix) {
  const int64_t rows = matrix.rows, cols = matrix.cols;
  parts.Require(module, part, scales, types, scales.shape);
  std::vector<int64_t> shape = scales.shape;
  while (shape.size() < 2) shape.push_back(1);
  if (shape.size() > 2) parts.Refuse(module, part, "has more than two dimensions");
  matrix.scales = {.type = scales.type, .data = scales.data.data(), .row_stride = shape[1], .group_stride = 1};
  if (scales.type == NumberType::kU8) matrix.scales.form = ScaleForm::kPowerOfTwo;
  const bool blocks = quants.block_rows > 0 && shape[0] == Blocks(rows, quants.block_rows) &&
                      shape[1] == Blocks(cols, quants.block_cols);
  if (blocks) {
    matrix.scales.rows_per_scale = quants.block_rows;
    matrix.group = quants.block_cols;
  } else if (shape[0] == 1 && shape[1] == 1) {
    matrix.scales.row_stride = matrix.scales.group_stride = 0;
    matrix.group = cols;
  } else if (shape[0] == rows && shape[1] > 0 && cols % shape[1] == 0) {
    matrix.group = cols / shape[1];
  } else {
    parts.Refuse(module, part,
                 fmt::format("is [{}], which are not scales of the rows, groups or blocks of a matrix [{}, {}]",
                             fmt::join(scales.shape, ", "), rows, cols));
  }
}

/// Joins an int8 or FP8 MODULE.weight with its scales.
void JoinUnpacked(QuantizedParts& parts, const StoredQuants& quants, const std::string& module) {
  const Tensor numbers = *parts.TakeIf(module, "weight");
  if (numbers.shape.size() != 2 || numbers.shape[0] < 1 || numbers.shape[1] < 1)
    parts.Refuse(module, "weight",
                 fmt::format("is [{}]: only matrices may be quantised", fmt::join(numbers.shape, ", ")));
  const bool fp8 = numbers.type == NumberType::kFp8E4M3;
  ScaledMatrix matrix{.rows = numbers.shape[0], .cols = numbers.shape[1]};
  const char* part = "weight_scale";
  std::optional<Tensor> scales = parts.TakeIf(module, part);
  if (!scales) scales = parts.TakeIf(module, part = "weight_scale_inv");
  if (!scales) parts.Refuse(module, "weight_scale", "is missing");
  SetScales(parts, module, part, *scales, quants, fp8 ? kScalesOfFp8 : kScaleTypes, matrix);
  if (fp8) {
    matrix.fp8 = numbers.data.data();
  } else {
    matrix.ints = {
        .data = numbers.data.data(), .word_bytes = 1, .row_stride = matrix.cols, .col_stride = 1, .flip = kSigned};
    matrix.zero = kSigned;
    if (const std::optional<Tensor> zeros = parts.TakeIf(module, "weight_zero_point")) {
      parts.Require(module, "weight_zero_point", *zeros, {NumberType::kInt8}, scales->shape);
      if (matrix.scales.rows_per_scale != 1) parts.Refuse(module, "weight_zero_point", "of blocks is not supported");
      matrix.zero = 0;
      matrix.zeros = {.data = zeros->data.data(),
                      .word_bytes = 1,
                      .row_stride = matrix.scales.row_stride,
                      .col_stride = matrix.scales.group_stride,
                      .flip = kSigned};
    }
  }
  parts.Put(module, numbers.type, numbers, *scales, matrix);
}

void JoinAllUnpacked(QuantizedParts& parts, const StoredQuants& quants, NumberType type) {
  for (const std::string& module : parts.ModulesWith("weight", type)) JoinUnpacked(parts, quants, module);
}

/// Reads [rows, cols] of a packed matrix from a tensor of two integers.
std::pair<int64_t, int64_t> ShapeOf(QuantizedParts& parts, const std::string& module) {
  const Tensor shape = parts.Take(module, "weight_shape", {NumberType::kInt64, NumberType::kInt32}, {2});
  if (shape.type == NumberType::kInt64) {
    int64_t numbers[2];
    std::memcpy(numbers, shape.data.data(), sizeof(numbers));
    return {numbers[0], numbers[1]};
  }
  int32_t numbers[2];
  std::memcpy(numbers, shape.data.data(), sizeof(numbers));
  return {numbers[0], numbers[1]};
}

/// Returns the number of bits of an integer when `cols` columns take `words` words; 0 when no supported size fits.
int BitsOf(int64_t cols, int64_t words) {
  for (const int bits : {4, 8}) {
    if (cols > 0 && words == Blocks(cols, kPackedWordBits / bits)) return bits;
  }
  return 0;
}

void JoinPacked(QuantizedParts& parts, const StoredQuants& quants, const std::string& module) {
  const auto [rows, cols] = ShapeOf(parts, module);
  const Tensor words = *parts.TakeIf(module, "weight_packed");
  const bool fits = words.shape.size() == 2 && rows > 0 && words.shape[0] == rows;
  const int bits = fits ? BitsOf(cols, words.shape[1]) : 0;
  if (bits == 0)
    parts.Refuse(module, "weight_packed",
                 fmt::format("is {} [{}], which is no matrix [{}, {}] of 4 or 8 bits", LayoutOf(words.type).name,
                             fmt::join(words.shape, ", "), rows, cols));
  ScaledMatrix matrix{.rows = rows, .cols = cols};
  const std::optional<Tensor> scales = parts.TakeIf(module, "weight_scale");
  if (!scales) parts.Refuse(module, "weight_scale", "is missing");
  SetScales(parts, module, "weight_scale", *scales, quants, kScaleTypes, matrix);
  matrix.ints = {.data = words.data.data(), .bits = bits, .row_stride = words.shape[1], .col_stride = 1};
  matrix.zero = 1 << (bits - 1);
  if (const std::optional<Tensor> zeros = parts.TakeIf(module, "weight_zero_point")) {
    const int64_t per_word = kPackedWordBits / bits, groups = matrix.groups();
    parts.Require(module, "weight_zero_point", *zeros, {NumberType::kInt32}, {Blocks(rows, per_word), groups});
    matrix.zero = 0;
    matrix.zeros = {
        .data = zeros->data.data(), .bits = bits, .along_rows = true, .row_stride = groups, .col_stride = 1};
  }
  if (const std::optional<Tensor> groups = parts.TakeIf(module, "weight_g_idx")) {
    parts.Require(module, "weight_g_idx", *groups, {NumberType::kInt32}, {cols});
    int32_t first = 0;
    std::memcpy(&first, groups->data.data(), sizeof(first));
    if (first != -1) matrix.column_groups = groups->data.data();  // -1: the columns are in order
  }
  parts.Put(module, bits == 4 ? NumberType::kInt4 : NumberType::kInt8, words, *scales, matrix);
}

}  // namespace

void JoinFp8(QuantizedParts& parts, const StoredQuants& quants) {
  JoinAllUnpacked(parts, quants, NumberType::kFp8E4M3);
}

void JoinModelOpt(QuantizedParts& parts, const StoredQuants& quants) {
  for (const std::string& module : parts.ModulesWith("weight", NumberType::kU8))
    JoinFp4(parts, module, "weight", {.part = "weight_scale_2", .divides = false});
  JoinAllUnpacked(parts, quants, NumberType::kFp8E4M3);
}

void JoinCompressedTensors(QuantizedParts& parts, const StoredQuants& quants) {
  for (const std::string& module : parts.ModulesWith("weight_packed", NumberType::kInt32))
    JoinPacked(parts, quants, module);
  for (const std::string& module : parts.ModulesWith("weight_packed", NumberType::kU8))
    JoinFp4(parts, module, "weight_packed", {.part = "weight_global_scale", .divides = true});
  JoinAllUnpacked(parts, quants, NumberType::kFp8E4M3);
  JoinAllUnpacked(parts, quants, NumberType::kInt8);
}

}  // namespace quire
