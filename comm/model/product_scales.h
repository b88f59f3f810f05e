#pragma once

#include <string>

namespace quire {

/// Factors of the results of layers' products, the same in all layers (muP: Yang et al. 2022).
struct ProductScales {
  // Factors of what is added to the residual.
  double attention_out = 1, state_out = 1, mlp_out = 1;
  double mlp_gate = 1;  // factor of the MLP's gates, before their activation
  // Factors of the parts of a state space's input, before its convolution. weight_spec.h says what the names mean.
  double state_query = 1, state_key = 1, state_value = 1, state_gate = 1, state_decay = 1;

  /// True when some part of a state space's input has another factor than 1.
  bool scale_states() const;
  bool operator==(const ProductScales&) const = default;
};

/// Throws Error, which begins with `path`, when a factor is out of range.
void CheckProductScales(const ProductScales& scales, const std::string& path);

/// Returns every field as text, for fingerprints.
std::string TextOf(const ProductScales& scales);

}  // namespace quire
