#pragma once

#include <string>
#include <vector>

namespace quire {

/// The differences between a file's tensors and the tensors that the model needs.
struct TensorMismatch {
  std::vector<std::string> missing, unexpected, misshapen;

  bool empty() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  /// Returns all differences in one line. Names that differ only in numbers are joined, as in
  /// model.layers.{0-31}.mlp.up_proj.weight. The line has at most 32 joined names each of missing, unexpected and
  /// misshapen tensors, and gives the number of the others.
  std::string Text() const;
};

}  // namespace quire
