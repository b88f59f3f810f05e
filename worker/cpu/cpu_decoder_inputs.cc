// CpuDecoder's inputs besides the tokens' embeddings: vectors of token types, the rows of the previous stage of a
// pipeline, hidden states that a prediction layer reads, and layer inputs (numbers for each token that each layer gets
// besides the residual). Also hands rows on to the next stage.
#include <algorithm>
#include <cmath>

#include "kernels/gate_mul.h"
#include "kernels/head_norm.h"
#include "kernels/rms_norm.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

void CpuDecoder::LookUp(const kernels::EmbeddingParams& params) {
  const int64_t at_once = MappedPages::PlacesAtOnce(params.table.row_bytes);
  for (int64_t row = 0; row < params.num_tokens; row += at_once) {
    kernels::EmbeddingParams some = params;
    some.num_tokens = std::min(at_once, params.num_tokens - row);
    some.token_ids += row;
    some.out = static_cast<float*>(params.out) + row * params.table.cols;
    pages_.WillRead(some.num_tokens, params.table.row_bytes);
    kernels::Embedding(stream_, some);
  }
}

void CpuDecoder::AddTokenTypes() {
  LookUp({.dtype = NumberType::kF32,
          .table = weights_.token_types,
          .token_ids = inputs_->token_types.data(),
          .out = buffers_.residual.data(),
          .num_tokens = tokens_,
          .adds = true});
}

Range CpuDecoder::PartOfRows(int place) const {
  const int64_t numbers = tokens_ * spec_.hidden_size, places = collective_.size();
  return {numbers * place / places, numbers * (place + 1) / places};
}

/// Receives this rank's part of the rows from the rank with the same index in the previous stage. Then the ranks of
/// this stage exchange their parts, so that each number goes from stage to stage only once.
void CpuDecoder::TakeRows() {
  // Layer inputs come from the tokens' embeddings alone, so every stage computes them itself.
  if (spec_.layer_input_size > 0) Embed();
  const int place = collective_.rank(), places = collective_.size();
  float* const rows = buffers_.residual.data();
  float* const taken = places == 1 ? rows : buffers_.delta.data();
  const auto mine = std::as_writable_bytes(std::span(taken, static_cast<size_t>(PartOfRows(place).size())));
  link_->Receive(link_->stage() - 1, mine);
  if (places == 1) return;
  std::vector<size_t> counts;
  for (int p = 0; p < places; ++p) counts.push_back(static_cast<size_t>(PartOfRows(p).size()) * sizeof(float));
  collective_.AllGather(mine, counts,
                        std::as_writable_bytes(std::span(rows, static_cast<size_t>(tokens_ * spec_.hidden_size))));
}

void CpuDecoder::GiveRows() {
  const Range part = PartOfRows(collective_.rank());
  const std::span<const float> rows(buffers_.residual.data() + part.begin, static_cast<size_t>(part.size()));
  link_->Send(link_->stage() + 1, std::as_bytes(rows));
}

void CpuDecoder::JoinHidden() {
  const PredictionWeights& w = weights_.prediction;
  const int64_t hidden = spec_.hidden_size;
  joined_.resize(static_cast<size_t>(tokens_ * 2 * hidden));
  const auto join = [&](const NormWeights& norm, int64_t place) {
    Norm(norm, buffers_.normed.data());
    for (int64_t row = 0; row < tokens_; ++row)
      std::copy_n(buffers_.normed.data() + row * hidden, hidden, joined_.data() + (2 * row + place) * hidden);
  };
  join(w.token_norm, 0);
  std::copy_n(inputs_->hidden.data(), tokens_ * hidden, buffers_.residual.data());
  join(w.hidden_norm, 1);
  Matmul(joined_.data(), w.in, buffers_.residual.data(), hidden, tokens_, activations_);
}

void CpuDecoder::MakeLayerInputs() {
  const LayerInputWeights& w = weights_.layer_inputs;
  const int64_t layers = spec_.num_layers(), size = spec_.layer_input_size, width = layers * size;
  float* inputs = buffers_.layer_inputs.data();
  const float* x = buffers_.residual.data();
  Matmul(x, w.projection, inputs, width, tokens_, activations_);
  AddAdapters(WeightPlace::kInputProjection, 0, x, spec_.hidden_size, AdaptersOf({0, tokens_}), inputs, width);
  // The norm of x / sqrt(hidden) equals the norm of x with an epsilon that is `hidden` times as large.
  kernels::HeadNorm(stream_, {inputs, w.norm.data(), tokens_, layers, size, width,
                              static_cast<float>(spec_.norm_epsilon * static_cast<double>(spec_.hidden_size))});
  LookUp({.dtype = NumberType::kF32,
          .table = w.embedding,
          .token_ids = inputs_->token_ids.data(),
          .out = inputs,
          .num_tokens = tokens_,
          .scale = static_cast<float>(std::sqrt(static_cast<double>(size) / 2)),
          .adds = true});
}

void CpuDecoder::AddLayerInput(int64_t layer) {
  const LayerWeights& w = weights(layer);
  const int64_t size = spec_.layer_input_size;
  float* gated = buffers_.gated_input.data();
  const std::span<const int32_t> adapters = AdaptersOf({0, tokens_});
  Matmul(buffers_.residual.data(), w.input_gate, gated, size, tokens_, activations_);
  AddAdapters(WeightPlace::kInputGate, layer, buffers_.residual.data(), spec_.hidden_size, adapters, gated, size);
  kernels::GateMul(stream_, {.dtype = NumberType::kF32,
                             .gate_up = gated,
                             .out = gated,
                             .num_tokens = tokens_,
                             .columns = size,
                             .interleaved = false,
                             .activation = AsKernel(spec_.activation),
                             .up = buffers_.layer_inputs.data() + layer * size,
                             .up_stride = spec_.num_layers() * size});
  float* added = buffers_.delta.data();
  Matmul(gated, w.input_out, added, spec_.hidden_size, tokens_, activations_);
  AddAdapters(WeightPlace::kInputOut, layer, gated, size, adapters, added, spec_.hidden_size);
  kernels::RmsNorm(stream_, {NumberType::kF32, added, nullptr, w.input_norm.data(), buffers_.residual.data(), tokens_,
                             spec_.hidden_size, static_cast<float>(spec_.norm_epsilon), true, w.scale});
}

}  // namespace quire
