#pragma once

#include "kernels/cuda/decode/decode_attention.h"
#include "kernels/cuda/decode_case.h"

namespace quire::kernels {

/// Says how the work of a case is divided over thread blocks, and how the case's arrays lie in memory.
struct DecodeCut {
  int32_t num_ctas = 3;
  int32_t min_units = kDecodeMinUnits;
  int32_t stages = 3;
  int32_t padding = 0;      // sequences of context 0 behind those of the case, as a graph's batch has them
  bool table_rows = false;  // block tables are rows of a larger array, in another order
};

/// Plans a case and runs it through DecodeAttention. What the kernels must not read is a block id far outside the pool
/// or NaN, except for the keys that DecodeCase describes.
class DecodeAttentionRun {
 public:
  DecodeAttentionRun(const DecodeShape& shape, uint64_t seed, const DecodeCut& cut);

  DecodeAttentionParams Params() const;
  DecodePlan plan() const { return plan_; }
  /// Output returns the results of the case's sequences, and Padding those of the padding sequences.
  std::vector<float> Output() const { return Slice(0, rows_ - cut_.padding); }
  std::vector<float> Padding() const { return Slice(rows_ - cut_.padding, rows_); }
  const DecodeCase& of() const { return case_; }

 private:
  std::vector<float> Slice(int64_t begin, int64_t end) const;

  DecodeCut cut_;
  DecodeCase case_;
  int64_t rows_, row_elements_;
  std::vector<int32_t> head_start_;
  DecodeWorkSize size_;
  DecodePlan plan_;
  simt::DeviceBuffer<int32_t> work_, tables_, table_rows_;
  simt::DeviceBuffer<std::byte> queries_, out_;
  simt::DeviceBuffer<float> workspace_;
};

}  // namespace quire::kernels
