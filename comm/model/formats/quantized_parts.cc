#include "comm/model/formats/quantized_parts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kActivationParts[] = {
    ".input_scale",       ".input_scale_ub",   ".input_zero_point", ".input_global_scale", ".output_scale",
    ".output_zero_point", ".activation_scale", ".q_scale",          ".k_zero_point",       ".v_zero_point"};

std::string NameOf(const std::string& module, std::string_view part) { return module + '.' + std::string(part); }

}  // namespace

std::vector<std::string> QuantizedParts::ModulesWith(std::string_view part, NumberType type) const {
  const std::string end = NameOf("", part);
  std::vector<std::string> modules;
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.type == type && tensor.scaled == nullptr && name.size() > end.size() && name.ends_with(end))
      modules.push_back(name.substr(0, name.size() - end.size()));
  }
  return modules;
}

std::optional<Tensor> QuantizedParts::TakeIf(const std::string& module, std::string_view part) {
  const auto node = tensors_.extract(NameOf(module, part));
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

Tensor QuantizedParts::Take(const std::string& module, std::string_view part, std::initializer_list<NumberType> types,
                            const std::vector<int64_t>& shape) {
  std::optional<Tensor> tensor = TakeIf(module, part);
  if (!tensor) Refuse(module, part, "is missing");
  Require(module, part, *tensor, types, shape);
  return *std::move(tensor);
}

void QuantizedParts::Require(const std::string& module, std::string_view part, const Tensor& tensor,
                             std::initializer_list<NumberType> types, const std::vector<int64_t>& shape) const {
  if (std::ranges::find(types, tensor.type) == types.end())
    Refuse(module, part, fmt::format("holds {} numbers, which is not supported there", LayoutOf(tensor.type).name));
  if (tensor.shape != shape)
    Refuse(module, part, fmt::format("is [{}] instead of [{}]", fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
}

void QuantizedParts::Put(const std::string& module, NumberType type, const Tensor& numbers, const Tensor& scales,
                         ScaledMatrix matrix) {
  Tensor whole{type, {matrix.rows, matrix.cols}, numbers.data, scales.data};
  whole.scaled = std::make_shared<const ScaledMatrix>(matrix);
  PutWhole(module, std::move(whole));
}

void QuantizedParts::PutWhole(const std::string& module, Tensor whole) {
  if (!tensors_.emplace(NameOf(module, "weight"), std::move(whole)).second)
    Refuse(module, "weight", "is there in two forms");
}

void QuantizedParts::Refuse(const std::string& module, std::string_view part, const std::string& why) const {
  Fail("{}: tensor {} {}", path_, NameOf(module, part), why);
}

void DropActivationScales(TensorMap& tensors) {
  std::erase_if(tensors, [](const auto& entry) {
    return std::ranges::any_of(kActivationParts, [&](std::string_view end) { return entry.first.ends_with(end); });
  });
}

}  // namespace quire
