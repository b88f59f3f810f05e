#pragma once

#include "kernels/causal_conv.h"
#include "kernels/gate_squares.h"
#include "kernels/gated_delta.h"
#include "kernels/gated_norm.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/state_space.h"

namespace quire::kernels {

/// The vectorised inner parts of ops that only layers with a recurrent state need, compiled once per instruction set
/// like IsaTable. Ranges, panels and heads are independent of each other.
struct RecurrentTable {
  int64_t (*conv_panels)(const CausalConvParams&);  // number of panels per sequence
  void (*causal_conv)(const CausalConvParams&, int64_t sequence, int64_t panel);
  int64_t (*state_panels)(int64_t value_dim);  // number of panels per sequence and value head
  int64_t (*state_scratch)(int64_t key_dim);   // number of floats per panel
  void (*gated_delta)(const GatedDeltaParams&, int64_t sequence, int64_t head, int64_t panel, float* scratch);
  void (*state_space)(const StateSpaceParams&, int64_t sequence, int64_t head, int64_t panel, float* scratch);
  void (*gated_norm)(const GatedNormParams&, int64_t row_begin, int64_t row_end);
  void (*gate_squares)(const GateSquaresParams&, int64_t row_begin, int64_t row_end);
  void (*sigmoid_gate)(const SigmoidGateParams&, int64_t row_begin, int64_t row_end);
};

namespace baseline {
const RecurrentTable& Recurrent();
}
namespace avx2 {
const RecurrentTable& Recurrent();
}
namespace avx512 {
const RecurrentTable& Recurrent();
}

/// Returns the table for the instruction set of ActiveTable().
const RecurrentTable& ActiveRecurrentTable();

}  // namespace quire::kernels
