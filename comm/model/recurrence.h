#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// The norm between a state space and its output product.
enum class StateNorm : uint8_t {
  kAfterGate,   // norm(x * silu(gate)), over the value heads of each key head together
  kBeforeGate,  // norm(x) * silu(gate), with the same norm
  kNone,        // x * silu(gate)
};

/// Sizes of layers with a recurrent state of fixed size, instead of keys and values or in addition to them. All such
/// layers of a model have the same sizes. The number of fp32 numbers in a sequence's state in one layer does not depend
/// on the sequence's length:
///   Mixer::kShortConvolution         (taps - 1) * channels
///   Mixer::kGatedDelta, kStateSpace  (taps - 1) * (2 * key_heads * key_dim + value_heads * value_dim)
///                                    + value_heads * key_dim * value_dim
struct Recurrence {
  int64_t taps = 0;      // tokens that convolutions see, the current token included; 0: no such layers
  int64_t channels = 0;  // channels of Mixer::kShortConvolution
  // Numbers of heads of the state. Each query and key head serves an equal number of neighbouring value heads. State
  // spaces call key heads groups, and key_dim the state size.
  int64_t key_heads = 0, value_heads = 0;
  int64_t key_dim = 0, value_dim = 0;
  bool taps_bias = false;                  // convolutions have biases
  StateNorm norm = StateNorm::kAfterGate;  // used by state spaces only
  // Layout of the file, for the gated delta rule. gates_by_key_head: the gates are rows of the tensor of queries, keys
  // and values, ordered by key head. betas_by_key_head: betas and decays are rows of one tensor, ordered by key head.
  // false: each is a separate tensor.
  bool gates_by_key_head = false, betas_by_key_head = false;
  bool values_tiled = false;   // the first value heads of all key heads come first, then their second value heads
  bool rates_negated = false;  // the file has negated rates, not logarithms of rates

  int64_t heads_per_key() const { return value_heads / key_heads; }
};

/// Throws Error, which begins with `path`, when a number is out of range or two numbers contradict each other.
void CheckRecurrence(const Recurrence& recurrence, const std::string& path);

/// Returns every field as text, for fingerprints.
std::string TextOf(const Recurrence& recurrence);

}  // namespace quire
