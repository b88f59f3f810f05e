// Reads matrices that bitsandbytes quantised.
// 4 bits: MODULE.weight has codes in row-major order, two in a byte, the first in the high half. The JSON tensor
// MODULE.weight.quant_state.bitsandbytes__nf4 (or fp4) describes the matrix. MODULE.weight.quant_map has the numbers
// that the codes encode, and MODULE.weight.absmax has a scale for each block of codes. Scales may be quantised
// themselves: they are then bytes, with .nested_quant_map, .nested_absmax and an offset.
// 8 bits: MODULE.weight is int8, and MODULE.SCB has the largest absolute value of each row.
#include <cstring>
#include <string_view>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/formats/quantized_matrices.h"

namespace quire {

namespace {

constexpr int64_t kMostBlock = 1 << 20;

/// The JSON object that describes a matrix.
struct QuantState {
  int64_t rows = 0, cols = 0, block = 0;
  int64_t outer_block = 0;  // number of scales that share an outer scale, if scales are quantised; otherwise 0
  double offset = 0;        // added to each scale, if scales are quantised
};

int64_t BlockOf(const QuantizedParts& parts, const std::string& module, const std::string& part, const Json& state,
                const char* key) {
  const bool fits =
      state.contains(key) && state[key].is_number_integer() && state[key] >= 1 && state[key] <= kMostBlock;
  if (!fits) parts.Refuse(module, part, fmt::format("has no {} from 1 to {}", key, kMostBlock));
  return state[key].get<int64_t>();
}

QuantState ReadState(const QuantizedParts& parts, const std::string& module, const std::string& part,
                     const Tensor& stored, const std::string& type) {
  constexpr size_t kMostBytes = 1 << 16;
  if (stored.data.size() > kMostBytes)
    parts.Refuse(module, part, fmt::format("has {} bytes, which is not supported", stored.data.size()));
  Json state;
  try {
    const std::string_view text(reinterpret_cast<const char*>(stored.data.data()), stored.data.size());
    state = ParseJson(text, "its text", {.max_depth = 8, .max_nodes = 1000});
  } catch (const Error& error) {
    parts.Refuse(module, part, fmt::format("is no JSON: {}", error.what()));
  }
  const auto is_extent = [](const Json& extent) {
    return extent.is_number_integer() && extent >= 1 && extent <= INT32_MAX;
  };
  const bool is_matrix = state.is_object() && state.contains("shape") && state["shape"].is_array() &&
                         state["shape"].size() == 2 && is_extent(state["shape"][0]) && is_extent(state["shape"][1]);
  if (!is_matrix) parts.Refuse(module, part, "describes no matrix: only matrices may be quantised");
  if (!state.contains("quant_type") || state["quant_type"] != type)
    parts.Refuse(module, part, "has another quant_type than its name says");
  QuantState read = {.rows = state["shape"][0].get<int64_t>(), .cols = state["shape"][1].get<int64_t>()};
  read.block = BlockOf(parts, module, part, state, "blocksize");
  if (state.contains("nested_blocksize")) {
    read.outer_block = BlockOf(parts, module, part, state, "nested_blocksize");
    if (!state.contains("nested_offset") || !state["nested_offset"].is_number())
      parts.Refuse(module, part, "has no nested_offset");
    read.offset = state["nested_offset"].get<double>();
  }
  return read;
}

int64_t Blocks(int64_t numbers, int64_t of) { return (numbers + of - 1) / of; }

void JoinCodes(QuantizedParts& parts, const std::string& module, const std::string& type) {
  const std::string state_part = "weight.quant_state.bitsandbytes__" + type;
  const Tensor described = *parts.TakeIf(module, state_part);
  const QuantState state = ReadState(parts, module, state_part, described, type);
  const int64_t numbers = state.rows * state.cols, blocks = Blocks(numbers, state.block);
  const std::optional<Tensor> codes = parts.TakeIf(module, "weight");  // of any type, because only its bytes count
  if (!codes) parts.Refuse(module, "weight", "is missing");
  if (std::ssize(codes->data) != Blocks(numbers, 2))
    parts.Refuse(module, "weight",
                 fmt::format("has {} bytes, which are not the codes of a matrix [{}, {}]", codes->data.size(),
                             state.rows, state.cols));
  ScaledMatrix matrix{.rows = state.rows,
                      .cols = state.cols,
                      .codes = codes->data.data(),
                      .high_first = true,
                      .group = state.block,
                      .flat = true};
  const Tensor map = parts.Take(module, "weight.quant_map", {NumberType::kF32}, {16});
  std::memcpy(matrix.code_numbers.data(), map.data.data(), sizeof(matrix.code_numbers));
  const bool nested = state.outer_block > 0;
  const Tensor scales = parts.Take(module, "weight.absmax", {nested ? NumberType::kU8 : NumberType::kF32}, {blocks});
  matrix.scales = {.type = scales.type, .data = scales.data.data(), .group_stride = 1};
  if (nested) {
    matrix.scales.form = ScaleForm::kNested;
    matrix.scales.numbers = parts.Take(module, "weight.nested_quant_map", {NumberType::kF32}, {256}).data.data();
    matrix.scales.outer =
        parts.Take(module, "weight.nested_absmax", {NumberType::kF32}, {Blocks(blocks, state.outer_block)}).data.data();
    matrix.scales.outer_block = state.outer_block;
    matrix.scales.offset = static_cast<float>(state.offset);
  }
  parts.Put(module, NumberType::kInt4, *codes, scales, matrix);
}

void JoinInt8(QuantizedParts& parts, const std::string& module) {
  constexpr uint8_t kSigned = 0x80;
  const std::optional<Tensor> numbers = parts.TakeIf(module, "weight");
  if (!numbers) parts.Refuse(module, "weight", "is missing");
  const bool is_matrix = numbers->shape.size() == 2 && numbers->shape[0] > 0 && numbers->shape[1] > 0;
  parts.Require(module, "weight", *numbers, {NumberType::kInt8},
                is_matrix ? numbers->shape : std::vector<int64_t>{1, 1});
  if (const std::optional<Tensor> format = parts.TakeIf(module, "weight_format")) {
    const bool in_rows = format->type == NumberType::kU8 && format->data.size() == 1 && format->data[0] == std::byte{0};
    if (!in_rows) parts.Refuse(module, "weight_format", "is not 0: only matrices in rows are supported");
  }
  ScaledMatrix matrix{.rows = numbers->shape[0], .cols = numbers->shape[1]};
  const Tensor largest = parts.Take(module, "SCB", {NumberType::kF32}, {matrix.rows});
  matrix.ints = {
      .data = numbers->data.data(), .word_bytes = 1, .row_stride = matrix.cols, .col_stride = 1, .flip = kSigned};
  matrix.zero = kSigned;
  matrix.group = matrix.cols;
  matrix.scales = {.data = largest.data.data(), .row_stride = 1, .factor = 1.0f / 127};
  parts.Put(module, NumberType::kInt8, *numbers, largest, matrix);
}

}  // namespace

void JoinBitsAndBytes(QuantizedParts& parts) {
  for (const std::string type : {"nf4", "fp4"}) {
    const std::string part = "weight.quant_state.bitsandbytes__" + type;
    for (const std::string& module : parts.ModulesWith(part, NumberType::kU8)) JoinCodes(parts, module, type);
  }
  for (const std::string& module : parts.ModulesWith("SCB", NumberType::kF32)) JoinInt8(parts, module);
}

}  // namespace quire
