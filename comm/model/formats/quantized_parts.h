#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/formats/scaled_matrix.h"
#include "comm/model/formats/tensor.h"

namespace quire {

/// The tensors of a file of which quantised matrices are put together: a MODULE's parts MODULE.qweight,
/// MODULE.scales and so on become MODULE.weight. Errors begin with the path, and name the part.
class QuantizedParts {
 public:
  QuantizedParts(TensorMap& tensors, std::string path) : tensors_(tensors), path_(std::move(path)) {}

  /// Modules that have such a part of this type, without the dot before it; not what was put together already.
  std::vector<std::string> ModulesWith(std::string_view part, NumberType type) const;
  /// Takes a part out of the file's tensors, or nothing.
  std::optional<Tensor> TakeIf(const std::string& module, std::string_view part);
  /// Takes it and throws Error when it is missing, or of none of the types, or of another shape.
  Tensor Take(const std::string& module, std::string_view part, std::initializer_list<NumberType> types,
              const std::vector<int64_t>& shape);
  void Require(const std::string& module, std::string_view part, const Tensor& tensor,
               std::initializer_list<NumberType> types, const std::vector<int64_t>& shape) const;
  /// Puts MODULE.weight in their place.
  void Put(const std::string& module, NumberType type, const Tensor& numbers, const Tensor& scales,
           ScaledMatrix matrix);

  [[noreturn]] void Refuse(const std::string& module, std::string_view part, const std::string& why) const;

 private:
  TensorMap& tensors_;
  std::string path_;
};

/// Types that scales have.
inline constexpr std::initializer_list<NumberType> kScaleTypes = {NumberType::kF32, NumberType::kF16,
                                                                  NumberType::kBF16};

/// Takes out what files have for activations, whose numbers the engine keeps finer than that or scales by itself.
void DropActivationScales(TensorMap& tensors);

}  // namespace quire
