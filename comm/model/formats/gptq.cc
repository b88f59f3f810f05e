// Reads GPTQ and AWQ matrices. A matrix is MODULE.qweight, int32 words of integers; MODULE.qzeros, words with one
// integer for each group of columns in each row; and MODULE.scales [groups, rows]. GPTQ and AWQ store [cols, rows] of y
// = x * W^T.
#include "comm/base/error.h"
#include "comm/model/formats/quantized_matrices.h"

namespace quire {

namespace {

constexpr int64_t kWordBits = 32;

/// The scales and zeros of a matrix, which GPTQ and AWQ store in the same way.
struct Groups {
  Tensor scales;
  ScaledMatrix matrix;  // scales and zeros; the integers are not set yet
};

Groups TakeGroups(QuantizedParts& parts, const std::string& module, const StoredQuants& quants, int64_t rows,
                  int64_t cols) {
  const int64_t per_word = kWordBits / quants.bits;
  if (rows % per_word != 0)
    parts.Refuse(module, "qweight", fmt::format("has {} rows, which do not fill words of {}", rows, per_word));
  ScaledMatrix matrix{.rows = rows, .cols = cols, .group = quants.group == -1 ? cols : quants.group};
  const int64_t groups = matrix.groups();
  Tensor scales = parts.Take(module, "scales", kScaleTypes, {groups, rows});
  const Tensor zeros = parts.Take(module, "qzeros", {NumberType::kInt32}, {groups, rows / per_word});
  matrix.scales = {.type = scales.type, .data = scales.data.data(), .row_stride = 1, .group_stride = rows};
  matrix.zeros = {.data = zeros.data.data(),
                  .bits = quants.bits,
                  .along_rows = true,
                  .row_stride = 1,
                  .col_stride = rows / per_word};
  matrix.zero = quants.zero_offset;
  return {std::move(scales), matrix};
}

/// Throws Error unless the tensor of words is a matrix with at least one row and one column.
void RequireWords(const QuantizedParts& parts, const std::string& module, const Tensor& words) {
  const bool is_matrix = words.shape.size() == 2 && words.shape[0] > 0 && words.shape[1] > 0;
  if (!is_matrix)
    parts.Refuse(module, "qweight", fmt::format("is [{}] instead of a matrix", fmt::join(words.shape, ", ")));
}

NumberType IntType(int bits) { return bits == 4 ? NumberType::kInt4 : NumberType::kInt8; }

}  // namespace

void JoinGptq(QuantizedParts& parts, const StoredQuants& quants) {
  for (const std::string& module : parts.ModulesWith("qweight", NumberType::kInt32)) {
    const Tensor words = *parts.TakeIf(module, "qweight");  // [cols / per_word, rows]
    RequireWords(parts, module, words);
    const int64_t rows = words.shape[1], cols = words.shape[0] * (kWordBits / quants.bits);
    auto [scales, matrix] = TakeGroups(parts, module, quants, rows, cols);
    matrix.ints = {.data = words.data.data(), .bits = quants.bits, .row_stride = 1, .col_stride = rows};
    if (const std::optional<Tensor> groups = parts.TakeIf(module, "g_idx")) {
      parts.Require(module, "g_idx", *groups, {NumberType::kInt32}, {cols});
      matrix.column_groups = groups->data.data();
    }
    parts.Put(module, IntType(quants.bits), words, scales, matrix);
  }
}

void JoinAwq(QuantizedParts& parts, const StoredQuants& quants) {
  for (const std::string& module : parts.ModulesWith("qweight", NumberType::kInt32)) {
    const Tensor words = *parts.TakeIf(module, "qweight");  // [cols, rows / 8]
    RequireWords(parts, module, words);
    const int64_t per_word = kWordBits / quants.bits, rows = words.shape[1] * per_word, cols = words.shape[0];
    auto [scales, matrix] = TakeGroups(parts, module, quants, rows, cols);
    matrix.ints = {.data = words.data.data(),
                   .bits = quants.bits,
                   .along_rows = true,
                   .row_stride = 1,
                   .col_stride = rows / per_word,
                   .evens_first = true};
    matrix.zeros.evens_first = true;
    parts.Put(module, IntType(quants.bits), words, scales, matrix);
  }
}

}  // namespace quire
