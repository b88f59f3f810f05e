#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/formats/scaled_matrix.h"
#include "comm/model/formats/tensor.h"

namespace quire {

/// The tensors of a file while quantised matrices are joined from them. The parts MODULE.qweight, MODULE.scales and so
/// on become MODULE.weight. Errors begin with the path and name the part.
class QuantizedParts {
 public:
  QuantizedParts(TensorMap& tensors, std::string path) : tensors_(tensors), path_(std::move(path)) {}

  /// Returns the modules that have this part with this type, except modules with already joined matrices. `part` has no
  /// leading dot.
  std::vector<std::string> ModulesWith(std::string_view part, NumberType type) const;
  /// Removes a part from the file's tensors and returns it; returns nullopt when the part is missing.
  std::optional<Tensor> TakeIf(const std::string& module, std::string_view part);
  /// Removes a part from the file's tensors and returns it. Throws Error when the part is missing or has another type
  /// or shape.
  Tensor Take(const std::string& module, std::string_view part, std::initializer_list<NumberType> types,
              const std::vector<int64_t>& shape);
  void Require(const std::string& module, std::string_view part, const Tensor& tensor,
               std::initializer_list<NumberType> types, const std::vector<int64_t>& shape) const;
  /// Adds MODULE.weight, joined from the parts.
  void Put(const std::string& module, NumberType type, const Tensor& numbers, const Tensor& scales,
           ScaledMatrix matrix);
  /// Adds MODULE.weight, of a type that needs no ScaledMatrix.
  void PutWhole(const std::string& module, Tensor whole);

  [[noreturn]] void Refuse(const std::string& module, std::string_view part, const std::string& why) const;

 private:
  TensorMap& tensors_;
  std::string path_;
};

/// The types that scales of quantised integers may have.
inline constexpr std::initializer_list<NumberType> kScaleTypes = {NumberType::kF32, NumberType::kF16,
                                                                  NumberType::kBF16};

/// Removes the tensors for quantised activations. The engine holds activations in a finer type or computes their scales
/// itself.
void DropActivationScales(TensorMap& tensors);

}  // namespace quire
