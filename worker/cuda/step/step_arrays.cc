#include "worker/cuda/step/step_arrays.h"

#include "comm/base/error.h"

namespace quire {

static_assert(kMaxAttentionKinds == 2);

StepArrays::StepArrays(const StepLimits& limits, Pieces& pieces)
    : token_ids(pieces.Take<int32_t>(limits.tokens)),
      from_slot(pieces.Take<int32_t>(limits.tokens)),
      positions(pieces.Take<int32_t>(limits.tokens)),
      slots(pieces.Take<int64_t>(limits.tokens)),
      decode_context(pieces.Take<int32_t>(limits.sequences)),
      decode_table(pieces.Take<int32_t>(limits.sequences)),
      chunk_start(pieces.Take<int32_t>(limits.sequences + 1)),
      chunk_context(pieces.Take<int32_t>(limits.sequences)),
      chunk_table(pieces.Take<int32_t>(limits.sequences)),
      state_start(pieces.Take<int32_t>(limits.state_blocks > 0 ? limits.sequences + 1 : 0)),
      state_context(pieces.Take<int32_t>(limits.state_blocks > 0 ? limits.sequences : 0)),
      state_blocks(pieces.Take<int32_t>(limits.sequences * limits.state_blocks)),
      draw_row(pieces.Take<int32_t>(limits.sequences)),
      draw_slot(pieces.Take<int32_t>(limits.sequences)),
      sampling(pieces.Take<kernels::DeviceSampling>(limits.sequences)),
      tiles{pieces.Take<kernels::PrefillTile>(limits.prefill_tiles[0]),
            pieces.Take<kernels::PrefillTile>(limits.prefill_tiles[1])},
      merges{pieces.Take<kernels::PrefillMerge>(limits.prefill_merges[0]),
             pieces.Take<kernels::PrefillMerge>(limits.prefill_merges[1])},
      decode_work{pieces.Take<int32_t>(limits.decode_words[0]), pieces.Take<int32_t>(limits.decode_words[1])},
      lists_at(pieces.taken()),
      bias_token(pieces.Take<int32_t>(limits.sequences * kMaxListEntries)),
      bias(pieces.Take<float>(limits.sequences * kMaxListEntries)),
      banned(pieces.Take<int32_t>(limits.sequences * kMaxListEntries)),
      end(pieces.taken()) {}

namespace {

int64_t BytesOf(const StepLimits& limits) {
  Pieces pieces;
  return StepArrays(limits, pieces).end;
}

}  // namespace

StepBuffers::StepBuffers(const StepLimits& most, Device& device)
    : device_(device),
      host_memory_{device.AllocateHost(BytesOf(most), "a step's data"),
                   device.AllocateHost(BytesOf(most), "a step's data")},
      device_memory_(device.Allocate(BytesOf(most), "a step's data")) {}

void StepBuffers::Begin(const StepLimits& step) {
  Pieces host(host_memory_[current_].as()), on_device(device_memory_.as());
  host_.emplace(step, host);
  on_device_.emplace(step, on_device);
  QUIRE_CHECK(host_->end <= device_memory_.bytes(), "a step's data takes {} bytes of {}", host_->end,
              device_memory_.bytes());
}

void StepBuffers::Upload(int64_t num_biases, int64_t num_bans) {
  device_.CopyToDevice(device_memory_.as(), host_memory_[current_].as(), host_->lists_at);
  const auto send = [&](auto* to, const auto* from, int64_t count) {
    if (count > 0) device_.CopyToDevice(to, from, count * static_cast<int64_t>(sizeof(*from)));
  };
  send(on_device_->bias_token, host_->bias_token, num_biases);
  send(on_device_->bias, host_->bias, num_biases);
  send(on_device_->banned, host_->banned, num_bans);
  current_ ^= 1;
}

}  // namespace quire
