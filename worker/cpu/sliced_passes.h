#pragma once

#include <map>
#include <vector>

#include "worker/cpu/cpu_decoder.h"
#include "worker/cpu/kept_rows.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// Computes the slices of passes over long texts (Slice). Keeps the activations of the texts between slices.
class SlicedPasses {
 public:
  SlicedPasses(const ModelSpec& spec, const RankShard& shard, const EngineSizes& sizes)
      : spec_(spec), shard_(shard), sizes_(sizes) {}

  /// Computes a slice. If the slice completes its pass, the decoder's NormedRows returns the rows of the text until
  /// Release or until another step or slice is computed. Throws Error when more rows than MostKeptRows would be stored.
  void Compute(const Slice& slice, const SequenceTable& table, const KvCache& cache, CpuDecoder& decoder);
  /// Forgets the slots' texts, whether their passes have ended or not.
  void Release(const std::vector<SlotId>& slots);

 private:
  KeptRows& RowsOf(const Slice& slice);

  const ModelSpec spec_;
  const RankShard& shard_;
  const EngineSizes& sizes_;
  std::map<SlotId, KeptRows> kept_;
  StepInputs inputs_;
};

}  // namespace quire
