#pragma once

#include <string>
#include <vector>

namespace quire {

/// How a file's tensors differ from those that the model must have.
struct TensorMismatch {
  std::vector<std::string> missing, unexpected, misshapen;

  bool empty() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  /// All of them, in one line. Names that differ in numbers alone are one: model.layers.{0-31}.mlp.up_proj.weight. Past
  /// 32 different ones of a kind it says how many there are.
  std::string Text() const;
};

}  // namespace quire
