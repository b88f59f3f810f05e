// CudaDecoder's layer inputs: numbers that each layer gets for each token in addition to the residual.
#include <cmath>

#include "kernels/embedding.h"
#include "kernels/gate_mul.h"
#include "kernels/rms_norm.h"
#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/model/weight_slice.h"

namespace quire {

void CudaDecoder::MakeLayerInputs() {
  const Activations& a = memory_.activations;
  const int64_t size = spec_.layer_input_size, width = spec_.num_layers() * size;
  kernels::Embedding(device_.stream(), {.dtype = sizes_.dtype,
                                        .table = Table(weights_.layer_embedding, spec_.vocab_size, width),
                                        .token_ids = step_->arrays.token_ids,
                                        .out = a.layer_inputs,
                                        .num_tokens = shape_.num_rows,
                                        .scale = static_cast<float>(std::sqrt(static_cast<double>(size) / 2))});
  products_.Run(Product(a.residual, a.hidden, weights_.layer_projection, a.projected_inputs, width, shape_.num_rows));
  // The norm of x / sqrt(hidden) equals the norm of x with an epsilon that is `hidden` times as large.
  const auto epsilon = static_cast<float>(spec_.norm_epsilon * static_cast<double>(spec_.hidden_size));
  kernels::RmsNorm(device_.stream(), {sizes_.dtype, a.projected_inputs, nullptr, weights_.layer_projection_norm,
                                      a.layer_inputs, shape_.num_rows * spec_.num_layers(), size, epsilon, true});
}

void CudaDecoder::AddLayerInput(int64_t layer) {
  const Activations& a = memory_.activations;
  const CudaLayerWeights& w = weights(layer);
  const int64_t size = spec_.layer_input_size;
  products_.Run(Product(a.residual, a.hidden, w.input_gate, a.gated_input, size, shape_.num_rows));
  const auto* inputs = static_cast<const std::byte*>(a.layer_inputs) + layer * size * ByteSize(sizes_.dtype);
  kernels::GateMul(device_.stream(), {.dtype = sizes_.dtype,
                                      .gate_up = a.gated_input,
                                      .out = a.gated_input,
                                      .num_tokens = shape_.num_rows,
                                      .columns = size,
                                      .interleaved = false,
                                      .activation = AsKernel(spec_.activation),
                                      .up = inputs,
                                      .up_stride = spec_.num_layers() * size});
  products_.Run(Product(a.gated_input, size, w.input_out, a.delta, a.hidden, shape_.num_rows));
  kernels::RmsNorm(device_.stream(), {sizes_.dtype, a.delta, nullptr, w.input_norm, a.residual, shape_.num_rows,
                                      a.hidden, static_cast<float>(spec_.norm_epsilon), true, w.scale});
}

}  // namespace quire
