#pragma once

#include <string>
#include <vector>

namespace quire {

/// The differences between a file's tensors and the tensors that the model needs.
struct TensorMismatch {
  std::vector<std::string> missing, unexpected, misshapen;

  bool empty() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  /// Returns all differences in one line. Names that differ only in numbers are joined:
  /// model.layers.{0-31}.mlp.up_proj.weight. At most 32 names are given of the missing tensors, of the unexpected and
  /// of the misshapen ones, and then the number of the rest.
  std::string Text() const;
};

}  // namespace quire
