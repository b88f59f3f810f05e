#pragma once

#include <string>
#include <vector>

namespace quire {

/// The differences between a file's tensors and the tensors that the model needs.
struct TensorMismatch {
  std::vector<std::string> missing, unexpected, misshapen;

  bool empty() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  /// Returns all differences in one line. Names that differ only in numbers are joined:
  /// model.layers.{0-31}.mlp.up_proj.weight. After 32 different names of a kind, only the number of the rest is given.
  std::string Text() const;
};

}  // namespace quire
