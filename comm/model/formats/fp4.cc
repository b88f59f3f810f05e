// Reads NVFP4 and MXFP4 matrices from safetensors of ModelOpt and compressed-tensors: E2M1 numbers, two in a byte.
#include <array>
#include <cmath>
#include <cstring>

#include "comm/base/error.h"
#include "comm/model/formats/quantized_matrices.h"

namespace quire {

namespace {

constexpr int64_t kNvFp4Group = 16, kMxFp4Group = 32;
constexpr std::array<float, 16> kE2M1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

float GlobalScaleOf(QuantizedParts& parts, const std::string& module, const GlobalScale& global) {
  const std::optional<Tensor> stored = parts.TakeIf(module, global.part);
  if (!stored) parts.Refuse(module, global.part, "is missing");
  const bool is_scalar = stored->shape.empty() || stored->shape == std::vector<int64_t>{1};
  parts.Require(module, global.part, *stored, {NumberType::kF32}, is_scalar ? stored->shape : std::vector<int64_t>{1});
  float scale = 0;
  std::memcpy(&scale, stored->data.data(), sizeof(scale));
  if (!(scale > 0 && std::isfinite(scale))) parts.Refuse(module, global.part, fmt::format("is {}", scale));
  return global.divides ? 1 / scale : scale;
}

}  // namespace

void JoinFp4(QuantizedParts& parts, const std::string& module, const char* part, const GlobalScale& global) {
  const Tensor codes = *parts.TakeIf(module, part);
  const bool is_matrix = codes.shape.size() == 2 && codes.shape[0] > 0 && codes.shape[1] > 0;
  if (!is_matrix)
    parts.Refuse(module, part, fmt::format("is [{}]: only matrices may be quantised", fmt::join(codes.shape, ", ")));
  const int64_t rows = codes.shape[0], cols = 2 * codes.shape[1];
  const std::optional<Tensor> scales = parts.TakeIf(module, "weight_scale");
  if (!scales) parts.Refuse(module, "weight_scale", "is missing");
  const bool mx = scales->type == NumberType::kU8;
  const int64_t group = mx ? kMxFp4Group : kNvFp4Group;
  if (cols % group != 0)
    parts.Refuse(module, part, fmt::format("has {} columns, which are not groups of {}", cols, group));
  parts.Require(module, "weight_scale", *scales, {NumberType::kFp8E4M3, NumberType::kU8}, {rows, cols / group});
  if (mx) {
    parts.PutWhole(module, Tensor{NumberType::kMxFp4Pairs, {rows, cols}, codes.data, scales->data});
    return;
  }
  ScaledMatrix matrix{.rows = rows, .cols = cols, .codes = codes.data.data(), .code_numbers = kE2M1, .group = group};
  matrix.scales = {.type = scales->type,
                   .data = scales->data.data(),
                   .row_stride = cols / group,
                   .group_stride = 1,
                   .factor = GlobalScaleOf(parts, module, global)};
  parts.Put(module, NumberType::kInt4, codes, *scales, matrix);
}

}  // namespace quire
