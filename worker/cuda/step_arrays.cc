#include "worker/cuda/step_arrays.h"

namespace quire {

namespace {

static_assert(kMaxAttentionKinds == 2);

kernels::PrefillTile* TakeTiles(const StepLimits& limits, size_t kind, Pieces& pieces) {
  return pieces.Take<kernels::PrefillTile>(kind < limits.attention.size() ? limits.attention[kind].prefill_tiles : 0);
}

int32_t* TakeWork(const StepLimits& limits, size_t kind, Pieces& pieces) {
  return pieces.Take<int32_t>(kind < limits.attention.size() ? limits.attention[kind].decode_work.Words() : 0);
}

}  // namespace

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
      tiles{TakeTiles(limits, 0, pieces), TakeTiles(limits, 1, pieces)},
      decode_work{TakeWork(limits, 0, pieces), TakeWork(limits, 1, pieces)},
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

StepArrays Place(const StepLimits& limits, const DeviceMemory& memory) {
  Pieces pieces(memory.as());
  return StepArrays(limits, pieces);
}

}  // namespace

StepBuffers::StepBuffers(const StepLimits& limits, Device& device)
    : device_(device),
      host_memory_{device.AllocateHost(BytesOf(limits), "a step's data"),
                   device.AllocateHost(BytesOf(limits), "a step's data")},
      device_memory_(device.Allocate(BytesOf(limits), "a step's data")),
      host_{Place(limits, host_memory_[0]), Place(limits, host_memory_[1])},
      on_device_(Place(limits, device_memory_)) {}

void StepBuffers::Upload(bool with_lists) {
  const int64_t bytes = with_lists ? on_device_.end : on_device_.lists_at;
  device_.CopyToDevice(device_memory_.as(), host_memory_[current_].as(), bytes);
  current_ ^= 1;
}

}  // namespace quire
