#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/latent/latent_attention.h"
#include "simt/device_buffer.h"
#include "tests/support/random.h"

namespace quire::kernels {

/// `queries`: the number of a sequence's new tokens. `context`: the number of all its tokens, the new ones included; 0:
/// a padding entry without a sequence.
struct LatentChunk {
  int32_t queries, context;
};

struct LatentShape {
  NumberType dtype = NumberType::kBF16;
  bool fp8_cache = false;
  bool decodes = false;  // LatentDecode computes the chunks, which have one query each
  int32_t rotated_dim = kLatentHeadSize - kLatentRank, rank = kLatentRank;
  int32_t heads = 3, block_size = 16;
  std::vector<LatentChunk> chunks{{5, 5}, {1, 33}, {2, 0}, {0, 9}, {30, 70}};
  int32_t tile_rows = 64;  // on tensor cores; otherwise LatentTileRows() is taken
  int32_t num_ctas = 0;    // prefill: PrefillSplit; decodes: thread blocks
  float scale = 0.05f;
  bool resident_table = false;  // true: row numbers of the table differ from sequence numbers
  int64_t first_block = 0;      // least id of the blocks in use

  int32_t head_size() const { return rotated_dim + rank; }
  NumberType CachedType() const { return fp8_cache ? NumberType::kFp8E4M3 : dtype; }
};

/// Holds the inputs of latent attention in "device memory", with blocks in random order. Everything that no query may
/// read is NaN: slots after the context, blocks of no sequence, the rows of padded sequences. Table entries of blocks
/// that must not be read point far outside the pool. There is no pool of values, because latents serve as keys and
/// values.
class LatentCase {
 public:
  LatentCase(LatentShape shape, uint64_t seed);

  void Run() const;
  /// Returns [rows of all sequences, heads, rank].
  std::vector<float> Output() const;
  /// Describes the first difference beyond the tolerance from attention in fp64, or a write outside the output; empty
  /// if there is neither.
  std::string Wrong() const;
  /// The number of tiles or contexts that are split.
  int64_t num_merges() const { return num_merges_; }
  /// Makes the next run compute only the last `queries` tokens of the first `context` tokens of the only sequence.
  void Cut(int32_t queries, int32_t context);

 private:
  int64_t NumSeqs() const { return static_cast<int64_t>(shape_.chunks.size()); }
  int64_t NumRows() const;
  int64_t TableRow(int64_t seq) const { return shape_.resident_table ? NumSeqs() - seq : seq; }
  int64_t BlockElements() const { return int64_t{shape_.head_size()} * shape_.block_size; }
  bool HasTiles() const { return HasLatentTiles(shape_.dtype, shape_.head_size(), shape_.rank); }
  int32_t TileRows() const { return HasTiles() ? shape_.tile_rows : 32; }
  PrefillSplit Split() const { return {HasTiles() && !shape_.decodes ? shape_.num_ctas : 0, 1}; }
  DecodeWorkSize WorkSize() const;
  PagedCache Cache() const;
  /// The index in the pool of number d of the row of a position.
  int64_t At(int64_t seq, int64_t position, int64_t d) const;
  void Fill(uint64_t seed);
  void Plan();
  /// Returns the numbers of a sequence's rows in the cache: [context, head_size].
  std::vector<double> Cached(int64_t seq) const;
  /// Computes a row's results and their spreads (AttentionBound) from the sequence's cached numbers.
  void Expect(const std::vector<double>& cached, int64_t seq, int64_t row, int64_t head, std::vector<double>& out,
              std::vector<double>& spreads) const;
  std::string Name() const;

  LatentShape shape_;
  int64_t query_stride_, out_stride_, table_stride_, num_blocks_;
  simt::DeviceBuffer<std::byte> queries_, out_, pool_;
  simt::DeviceBuffer<int32_t> tables_, table_rows_, query_start_, contexts_, head_start_, work_;
  simt::DeviceBuffer<PrefillTile> tiles_;
  simt::DeviceBuffer<PrefillMerge> merges_;
  simt::DeviceBuffer<float> workspace_;
  int64_t num_merges_ = 0;
};

struct LatentWriteShape {
  NumberType dtype = NumberType::kBF16;
  bool fp8_cache = false, interleaved = true;
  int32_t rotated_dim = 16, rank = 64;
};

/// Runs LatentWrite for a few random tokens, one of them padding. Describes the first number that differs from the
/// formulas, or that no token should have changed; empty if there is none.
std::string WrongWrites(const LatentWriteShape& shape, uint64_t seed);

}  // namespace quire::kernels
