// Implements CpuDecoder's passes in slices, which compute a long text a few rows at a time (comm/PROTOCOL.md, Slices).
#include "worker/cpu/cpu_decoder.h"

namespace quire {

void CpuDecoder::ForwardSlice(const StepInputs& inputs, const KvCache& cache, int64_t pass_stage, KeptRows& kept) {
  const Range mine = shard_.stage;
  const bool finishes = mine.begin < pass_stage && pass_stage <= mine.end;
  const bool begins = mine.begin <= pass_stage && pass_stage < mine.end;
  if (!finishes && !begins) return;
  inputs_ = &inputs;
  cache_ = &cache;
  tokens_ = inputs.num_tokens();
  const int64_t row = inputs.first_position.front();
  if (finishes) {
    kept.Load(row, tokens_, QkvWidth(spec_, shard_, pass_stage - 1), buffers_);
    FinishLayer(spec_, pass_stage - 1, *this);
  }
  if (begins) {
    if (!finishes) pass_stage == 0 ? Embed() : TakeRows();
    BeginLayer(pass_stage, *this);
    kept.Save(row, tokens_, QkvWidth(spec_, shard_, pass_stage), buffers_);
  } else if (pass_stage < spec_.num_layers()) {
    GiveRows();
  } else {
    Logits();
    kept.SaveNormed(row, tokens_, buffers_);
    normed_ = kept.normed();
  }
}

}  // namespace quire
