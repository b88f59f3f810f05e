#pragma once

#include <cstdint>

namespace quire {

/// One rank's weights of a layer that keeps a recurrent state, in device memory. In other layers all pointers are null.
/// Vectors are fp32, whatever type the matrices have.
struct CudaMixerWeights {
  void* in = nullptr;          // [CudaMixerWidth, hidden]: rows in MixerShape's order, then zeros
  void* out = nullptr;         // [hidden, MixerShape::out_width]
  float* taps = nullptr;       // [taps, ConvolvedChannels]; the oldest token's tap comes first
  float* taps_bias = nullptr;  // [ConvolvedChannels], or null
  // Each of these vectors has one number for each local value head that keeps a state.
  float *rate = nullptr, *decay_bias = nullptr;
  float* skip = nullptr;  // [local value heads]; state spaces only
  float* norm = nullptr;  // [value_dim]; for state spaces [local values]
};

/// Returns MixerShape::in_width, rounded up so that rows are multiples of 16 bytes.
constexpr int64_t CudaMixerWidth(int64_t in_width) { return (in_width + 7) / 8 * 8; }

}  // namespace quire
