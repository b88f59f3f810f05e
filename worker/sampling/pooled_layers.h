#pragma once

#include <vector>

#include "comm/model/model_files.h"

namespace quire {

/// The layers after pooling (ModelSpec::pooled_head), with their weights in fp32. One rank computes these layers, for
/// one vector at a time, in fp64.
class PooledLayers {
 public:
  /// Reads the weights. Models without layers after pooling have none.
  explicit PooledLayers(const ModelFiles& files);

  /// Replaces a pooled row, [hidden], by the model's answer: [ModelSpec::pooled_head.outputs]. Without layers, the row
  /// stays as it is.
  void Apply(std::vector<float>& row) const;

 private:
  /// A matrix [rows, cols] in rows, and its bias: one number per row, or empty.
  struct Layer {
    std::vector<float> matrix, bias;
    std::vector<double> Multiply(const std::vector<double>& x) const;
  };
  void Norm(std::vector<double>& row) const;

  PooledHead head_;
  double epsilon_;
  Layer inner_, out_;
  std::vector<float> norm_, norm_bias_;
};

}  // namespace quire
