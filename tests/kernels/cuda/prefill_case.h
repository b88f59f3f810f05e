#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/prefill_reference.h"
#include "simt/device_buffer.h"
#include "tests/support/random.h"

namespace quire::kernels {

struct Chunk {
  int32_t queries, context;  // context 0: padding without a sequence
};

struct PrefillShape {
  NumberType dtype = NumberType::kBF16;
  bool fp8_cache = false;
  int32_t head_size = 64, block_size = 16;
  std::vector<int32_t> head_start{0, 2, 4};
  std::vector<Chunk> chunks{{5, 5}, {1, 33}, {2, 0}, {0, 9}, {37, 70}};
  int32_t window = 0;
  float soft_cap = 0;
  bool alibi = false;
  bool sinks = false;
  float first_sink = 2;  // sink of head 0; each later head's is one less
  float scale = 0.3f;
  bool resident_table = false;  // true: row numbers of the table differ from sequence numbers
  int64_t first_block = 0;      // least id of the blocks in use
  PrefillSplit split = {};      // only num_ctas is used; kv_heads follows from head_start
  bool in_groups = false;       // warpgroups compute the products (GroupMma)

  NumberType CachedType() const { return fp8_cache ? NumberType::kFp8E4M3 : dtype; }
};

/// Holds the inputs of a prefill in "device memory", with blocks in random order. Everything that no query may read is
/// NaN: slots after the context and before the first query's window, blocks of no sequence, the rows of padded
/// sequences, and the keys and values inside the rows. Table entries of blocks that must not be read point far outside
/// the pool.
class PrefillCase {
 public:
  PrefillCase(PrefillShape shape, uint64_t seed);

  PrefillAttentionParams Params() const;
  /// Returns the reference's results for these inputs.
  std::vector<double> Expected() const;
  /// Returns [rows of all sequences, num_heads, head_size].
  std::vector<float> Output() const;
  /// Describes the largest difference from the reference beyond the tolerance, or a write outside the output; empty if
  /// there is neither.
  std::string Wrong() const;
  /// Makes the next launch compute only the last `queries` tokens of the first `context` tokens of the only sequence.
  /// The rows of the inputs do not move, so that one prompt can be cut in several ways.
  void Cut(int32_t queries, int32_t context);
  int64_t num_merges() const { return num_merges_; }

 private:
  int64_t NumSeqs() const { return static_cast<int64_t>(shape_.chunks.size()); }
  int64_t NumHeads() const { return shape_.head_start.back(); }
  int64_t NumRows() const;
  int64_t HeadElements() const { return int64_t{shape_.head_size} * shape_.block_size; }
  int64_t TableRow(int64_t seq) const { return shape_.resident_table ? NumSeqs() - seq : seq; }
  PagedCache Cache() const;
  PrefillSplit Split() const;
  std::string Name() const;
  double Bound(double exact, double spread) const;
  void FillRows(test::Random& random);
  void FillSequence(int64_t seq, std::vector<int32_t>& free_blocks, test::Random& random);
  void Plan();

  PrefillShape shape_;
  int32_t kv_heads_;
  int64_t query_stride_, out_stride_, table_stride_, num_blocks_;
  simt::DeviceBuffer<std::byte> queries_, out_, keys_, values_;
  simt::DeviceBuffer<int32_t> tables_, table_rows_, query_start_, contexts_, head_start_;
  simt::DeviceBuffer<float> slopes_, sinks_;
  simt::DeviceBuffer<PrefillTile> tiles_;
  simt::DeviceBuffer<PrefillMerge> merges_;
  simt::DeviceBuffer<float> workspace_;
  int64_t num_merges_ = 0;
};

}  // namespace quire::kernels
