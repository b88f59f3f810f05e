#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/decode_reference.h"
#include "simt/device_buffer.h"
#include "tests/support/random.h"

namespace quire::kernels {

struct DecodeShape {
  NumberType dtype = NumberType::kBF16;
  bool fp8_cache = false;
  int32_t head_size = 64, block_size = 16;
  std::vector<int32_t> kv_head_of{0, 0, 1, 1};
  std::vector<int32_t> context_len{1, 33, 0, 70, 16, 129};
  int32_t window = 0;
  float soft_cap = 0;
  bool alibi = false;
  bool sinks = false;
  bool resident_table = false;  // row numbers of the table differ from sequence numbers
  int64_t first_block = 0;      // least id of the blocks in use

  NumberType CachedType() const { return fp8_cache ? NumberType::kFp8E4M3 : dtype; }
};

/// Inputs of a decode in "device memory", with shuffled blocks. Everything that no query may see is NaN: slots past the
/// context and before the window, and blocks of no sequence. Only the keys of every second such block are finite, with
/// high scores. Table entries of blocks that must not be read point far outside the pool.
class DecodeCase {
 public:
  explicit DecodeCase(DecodeShape shape, uint64_t seed);

  PagedDecodeParams Params() const;
  /// Returns the reference's results for these inputs.
  std::vector<double> Expected() const;
  std::vector<float> Output() const;
  std::string Name() const;
  /// Describes the first element that differs from Expected() by more than AttentionBound; empty if none does.
  std::string FirstWrong(const std::vector<float>& out) const;
  /// Returns t with |result - exact| <= t * max(1, |exact|): half a unit in the last place of the result, plus the
  /// error of fp32 sums.
  double Tolerance() const;

 private:
  int64_t Blocks(int32_t context) const { return (context + shape_.block_size - 1) / shape_.block_size; }
  int64_t RowElements() const { return static_cast<int64_t>(shape_.kv_head_of.size()) * shape_.head_size; }
  int64_t HeadElements() const { return int64_t{shape_.head_size} * shape_.block_size; }
  int64_t NumSeqs() const { return static_cast<int64_t>(shape_.context_len.size()); }
  int64_t TableRow(int64_t seq) const { return shape_.resident_table ? NumSeqs() - seq : seq; }
  PagedCache Cache() const;
  void FillSequence(size_t seq, std::vector<int32_t>& free_blocks, test::Random& random);

  DecodeShape shape_;
  int32_t kv_heads_, max_context_;
  int64_t table_stride_, num_blocks_;
  simt::DeviceBuffer<std::byte> queries_, out_, keys_, values_;
  simt::DeviceBuffer<int32_t> tables_, table_rows_, contexts_, kv_head_of_;
  simt::DeviceBuffer<float> slopes_, sinks_, workspace_;
};

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace quire::kernels
