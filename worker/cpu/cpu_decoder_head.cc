// CpuDecoder's functions for the output head: the rows after which a step samples or scores tokens, and the logits of
// these rows.
#include <algorithm>

#include "comm/base/error.h"
#include "kernels/cap_logits.h"
#include "worker/cpu/cpu_decoder.h"

namespace quire {

void CpuDecoder::Logits() {
  const int64_t hidden = spec_.hidden_size;
  if (Normed(weights_.final_norm) == buffers_.residual.data())
    std::copy_n(buffers_.residual.data(), tokens_ * hidden, buffers_.normed.data());
  if (!has_head()) return;
  // Only rows after which a token is sampled need logits. `normed` contains all rows, for LogitsOfRows and NormedRows.
  const auto draws = static_cast<int64_t>(inputs_->draw_rows.size());
  float* drawing = buffers_.delta.data();
  head_adapters_.clear();
  for (int64_t i = 0; i < draws; ++i) {
    const auto from = static_cast<size_t>(inputs_->draw_rows[static_cast<size_t>(i)]);
    std::copy_n(&buffers_.normed[from * static_cast<size_t>(hidden)], hidden, drawing + i * hidden);
    if (!inputs_->adapters.empty()) head_adapters_.push_back(inputs_->adapters[from]);
  }
}

std::span<float> CpuDecoder::LogitsOfDraws(int64_t first, int64_t count) {
  std::span<const int32_t> adapters = head_adapters_;
  if (!adapters.empty()) adapters = adapters.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  MultiplyHead(buffers_.delta.data() + first * spec_.hidden_size, count, adapters);
  return logits_;
}

std::span<float> CpuDecoder::LogitsOfRows(int64_t row, int64_t count) {
  MultiplyHead(buffers_.normed.data() + row * spec_.hidden_size, count, AdaptersOf({row, count}));
  return logits_;
}

std::span<const float> CpuDecoder::NormedRows(int64_t row, int64_t count) const {
  const auto hidden = static_cast<size_t>(spec_.hidden_size);
  return {normed_ + static_cast<size_t>(row) * hidden, static_cast<size_t>(count) * hidden};
}

void CpuDecoder::MultiplyHead(const float* rows, int64_t count, std::span<const int32_t> adapters) {
  QUIRE_CHECK(has_head(), "a {} has no output head", spec_.architecture);
  const int64_t vocab = shard_.vocab.size();
  logits_.resize(static_cast<size_t>(count * vocab));
  // The output head always takes x in int16, because no later layer evens out its rounding errors.
  Matmul(rows, weights_.head, logits_.data(), vocab, count, kernels::Activations::kInt16);
  ReplaceLogits(rows, adapters);
  AddAdapters(WeightPlace::kHead, 0, rows, spec_.hidden_size, adapters, logits_.data(), vocab);
  if (!weights_.head_bias.empty()) AddBias(weights_.head_bias, logits_.data(), count, vocab);
  if (spec_.logit_scale == 1 && spec_.logit_cap == 0) return;
  kernels::CapLogits(stream_, {logits_.data(), count, vocab, vocab, static_cast<float>(spec_.logit_scale),
                               static_cast<float>(spec_.logit_cap)});
}

}  // namespace quire
