#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Sizes of layers that carry a state of fixed size from token to token instead of keys and values; all alike. What a
/// sequence's state takes in one such layer, in fp32 numbers, whatever the number of its tokens:
///   Mixer::kShortConvolution         (taps - 1) * channels
///   Mixer::kGatedDelta, kStateSpace  (taps - 1) * (2 * key_heads * key_dim + value_heads * value_dim)
///                                    + value_heads * key_dim * value_dim
struct Recurrence {
  int64_t taps = 0;      // tokens that convolutions see, each token's own counted in; 0: the model has no such layers
  int64_t channels = 0;  // of Mixer::kShortConvolution
  // Of layers whose heads keep a state: heads of queries and keys, each of which serves as many neighbouring heads of
  // values. A state space's groups are its key heads, and the size of its state is their key_dim.
  int64_t key_heads = 0, value_heads = 0;
  int64_t key_dim = 0, value_dim = 0;
  bool taps_bias = false;  // their convolutions have biases
  // How the file has them. Of the gated delta rule, gates are rows of the tensor of queries, keys and values, or betas
  // and decays those of one tensor, both key head by key head; elsewhere they are tensors of their own.
  bool gates_by_key_head = false, betas_by_key_head = false;
  bool values_tiled = false;   // the first value head of every key head, then the second ones, and so on
  bool rates_negated = false;  // the negatives of rates, not their logarithms

  int64_t heads_per_key() const { return value_heads / key_heads; }
};

/// Throws Error beginning with `path` when a number is out of its range or two contradict each other.
void CheckRecurrence(const Recurrence& recurrence, const std::string& path);

/// Every field as text.
std::string TextOf(const Recurrence& recurrence);

}  // namespace quire
