#pragma once

#include <climits>
#include <simt/async_copy.cuh>
#include <simt/tensor_core.cuh>

#include "kernels/cuda/prefill/prefill_attention.h"

namespace quire::kernels {

struct PrefillLaunch {
  PrefillAttentionParams op;
  int32_t block_shift;  // log2(block_size)
  int32_t window;       // INT32_MAX: no window
  float scale;          // factor of products with keys as stored
};

/// The work of one thread block. PrefillTile says what a row is.
struct PrefillWork {
  int num_rows;  // 0 or less: no work
  int first_row, group, first_head, kv_head;
  int first_position;   // position of the sequence's query 0
  int64_t first_query;  // row of query 0 in `queries`
  int begin, end;       // positions that some row sees, within the tile's part
  int slot;             // workspace slot of the part; -1: not split
  simt::Global<const int32_t> table;

  __device__ int Query(int row) const { return (first_row + row) / group; }
  __device__ int Head(int row) const { return first_head + (first_row + row) % group; }
  __device__ int Position(int row) const { return first_position + Query(row); }
};

/// Returns the work of a tile for one KV head.
__device__ inline PrefillWork ReadPrefillWork(const PrefillLaunch& p, const PrefillTile& tile, int kv_head,
                                              int tile_rows) {
  PrefillWork w{.num_rows = 0, .table = simt::Global<const int32_t>(p.op.block_tables)};
  if (tile.sequence < 0) return w;
  const int context = simt::Global<const int32_t>(p.op.context_len)[tile.sequence];
  const simt::Global<const int32_t> query_start(p.op.query_start), head_start(p.op.head_start);
  w.kv_head = kv_head;
  w.first_head = head_start[w.kv_head];
  w.group = head_start[w.kv_head + 1] - w.first_head;
  const int first_query = query_start[tile.sequence];
  const int num_queries = query_start[tile.sequence + 1] - first_query;
  w.first_query = first_query;
  w.first_row = tile.first_row;
  w.num_rows = simt::Min(num_queries * w.group - w.first_row, tile_rows);
  if (w.num_rows <= 0) return w;
  w.first_position = context - num_queries;
  w.begin = simt::Max(simt::Max(w.Position(0) - p.window + 1, 0), tile.begin);
  w.end = simt::Min(w.Position(w.num_rows - 1) + 1, tile.end);
  w.slot = tile.slot;
  int64_t table_row = tile.sequence;
  if (p.op.table_rows != nullptr) table_row = simt::Global<const int32_t>(p.op.table_rows)[tile.sequence];
  w.table = w.table + table_row * p.op.table_stride;
  return w;
}

/// Returns the work of this thread block. The grid has num_tiles * num_kv_heads thread blocks; those of one tile, one
/// for each KV head, follow one another.
__device__ inline PrefillWork ReadPrefillWork(const PrefillLaunch& p, int tile_rows) {
  const int kv_heads = p.op.cache.num_kv_heads;
  const PrefillTile tile = simt::Global<const PrefillTile>(p.op.tiles)[simt::BlockX() / kv_heads];
  return ReadPrefillWork(p, tile, static_cast<int>(simt::BlockX() % kv_heads), tile_rows);
}

/// Returns the first element of a unit of a 16-bit matrix in shared memory. A unit is 8 neighbouring columns of one row
/// (16 bytes). Units of one column group lie one after the other with ascending rows; in odd groups, rows 0..3 of every
/// 8 are swapped with rows 4..7. Eight rows of a group (an ldmatrix matrix) and four rows of two neighbouring groups (a
/// copy of whole 32-byte sectors) therefore touch all 32 banks once. Units that are an even number of groups or a
/// multiple of 8 rows apart have a constant distance.
__host__ __device__ constexpr int UnitOf(int group, int row, int rows) {
  return (group * rows + (row ^ (group & 1) << 2)) * 8;
}

/// The layout of tiles of keys and values in shared memory, the length of a tile, and the number of threads that share
/// it.
template <int kHeadSize>
struct WarpTiles {
  static constexpr int kThreads = 128;
  static constexpr int kTokens = kHeadSize <= 128 ? 64 : 32;  // two thread blocks fit the shared memory of an SM
  __host__ __device__ static constexpr int UnitAt(int group, int row, int rows) { return UnitOf(group, row, rows); }
  static constexpr int SizeOf(int groups, int rows) { return groups * rows * 8; }
};

/// Loads tiles of kTokens positions, each from a multiple of kTokens on, from the paged cache into shared memory: keys
/// as [kTokens, kHeadSize], and values transposed, as [kHeadSize, kTokens]. Positions outside [begin, end) become
/// zeros. Copies are asynchronous, one tile ahead; block ids are read two tiles ahead. In every tile, a thread copies
/// parts of the key of one position and of the values of 8 neighbouring positions, so it reads two table entries. FP8
/// is copied unchanged, and then widened by the thread that copied it.
template <class T, class C, int kHeadSize, class Tiles>
class PrefillTileLoader {
 public:
  static constexpr int kThreads = Tiles::kThreads, kTokens = Tiles::kTokens;
  static constexpr int kTileSize = kTokens * kHeadSize;
  static constexpr bool kWidens = !std::is_same_v<T, C>;

  static constexpr int64_t SharedSize() {
    return simt::SharedBytes(kStages * kKeysSize * sizeof(T)) + simt::SharedBytes(kStages * kValuesSize * sizeof(T)) +
           (kWidens ? simt::SharedBytes(kRawKeys * sizeof(C)) + simt::SharedBytes(kTileSize * sizeof(C)) : 0);
  }

  __device__ PrefillTileLoader(const PrefillLaunch& p, const PrefillWork& work, simt::SharedArena& arena)
      : p_(p),
        work_(work),
        keys_(arena.Take<T>(kStages * kKeysSize)),
        values_(arena.Take<T>(kStages * kValuesSize)),
        raw_keys_(arena.Take<C>(kWidens ? kRawKeys : 0)),
        raw_values_(arena.Take<C>(kWidens ? kTileSize : 0)) {
    const int warp = simt::ThreadX() / 32, lane = simt::ThreadX() % 32;
    key_token_ = simt::ThreadX() % kTokens;
    value_group_ = warp % kPairs * 2 + lane % 2;
    value_row_ = warp / kPairs * 16 + lane / 2;
    key_unit_ = Tiles::UnitAt(simt::ThreadX() / kTokens, key_token_, kTokens);
    value_unit_ = Tiles::UnitAt(value_group_, value_row_, kHeadSize);
    ReadBlocks(work.begin / kTokens);
  }

  /// Starts to copy a tile. A 16-bit tile replaces the tile before the previous one; the bytes of an FP8 tile replace
  /// those of the previous tile. Call it in the order of tiles, after Finish() of the previous tile.
  __device__ void Start(int tile) {
    CopyKeys(tile);
    CopyValues(tile);
    simt::CommitCopies();
    ReadBlocks(tile + 1);
  }

  /// Waits for this thread's share of the tile and completes it. After a barrier the whole tile is complete.
  __device__ void Finish(int tile) {
    simt::WaitForCopies<0>();
    if constexpr (kWidens) {
      simt::SyncThreads();  // all threads have left the only tile of wide numbers
      WidenKeys();
      WidenValues(tile);
    } else {
      ZeroStrangers(tile);
    }
  }

  __device__ simt::SharedArray<T> Keys(int tile) const { return keys_ + (tile & (kStages - 1)) * kKeysSize; }
  __device__ simt::SharedArray<T> Values(int tile) const { return values_ + (tile & (kStages - 1)) * kValuesSize; }

 private:
  static constexpr int kStages = kWidens ? 1 : 2;
  static constexpr int kKeysSize = Tiles::SizeOf(kHeadSize / 8, kTokens);
  static constexpr int kValuesSize = Tiles::SizeOf(kTokens / 8, kHeadSize);
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kChunks = kHeadSize / kX;       // pieces per key
  static constexpr int kSharers = kThreads / kTokens;  // threads that share a key
  static constexpr int kKeyCopies = (kChunks + kSharers - 1) / kSharers;
  static constexpr int kKeyUnitStep = Tiles::UnitAt(kSharers, 0, kTokens);
  static constexpr int kRawKeys = kKeyCopies * kThreads * kX;
  static constexpr int kPairs = kTokens / 16;  // pairs of groups of value positions; a warp copies one pair
  static constexpr int kRowStep = 16 * (kThreads / 32) / kPairs;
  static constexpr int kValueCopies = kHeadSize / kRowStep;

  __device__ void ReadBlocks(int tile) {
    const int token = tile * kTokens + key_token_, group = tile * kTokens + value_group_ * 8;
    key_block_ = value_block_ = -1;
    if (token >= work_.begin && token < work_.end) key_block_ = work_.table[token >> p_.block_shift];
    if (group + 8 > work_.begin && group < work_.end) value_block_ = work_.table[group >> p_.block_shift];
  }

  __device__ void CopyKeys(int tile) {
    const simt::Global<const C> block = BlockOf(p_.op.cache.keys, p_.op.cache.key_block_stride, key_block_);
    const int block_size = p_.op.cache.block_size, first_chunk = simt::ThreadX() / kTokens;
    int from = (first_chunk * block_size + ((tile * kTokens + key_token_) & (block_size - 1))) * kX;
#pragma unroll
    for (int i = 0; i < kKeyCopies; ++i, from += kSharers * block_size * kX) {
      const int chunk = first_chunk + i * kSharers;
      if (kChunks % kSharers != 0 && chunk >= kChunks) break;
      if constexpr (kWidens) {
        simt::CopyAsync<16>(raw_keys_, (i * kThreads + simt::ThreadX()) * kX, block, from, key_block_ >= 0);
      } else {
        simt::CopyAsync<16>(Keys(tile), key_unit_ + i * kKeyUnitStep, block, from, key_block_ >= 0);
      }
    }
  }

  __device__ void CopyValues(int tile) {
    const simt::Global<const C> block = BlockOf(p_.op.cache.values, p_.op.cache.value_block_stride, value_block_);
    const int block_size = p_.op.cache.block_size;
    int from = value_row_ * block_size + ((tile * kTokens + value_group_ * 8) & (block_size - 1));
#pragma unroll
    for (int i = 0; i < kValueCopies; ++i, from += kRowStep * block_size) {
      if constexpr (kWidens) {
        simt::CopyAsync<8>(raw_values_, (i * kThreads + simt::ThreadX()) * 8, block, from, value_block_ >= 0);
      } else {
        simt::CopyAsync<16>(Values(tile), value_unit_ + i * kRowStep * 8, block, from, value_block_ >= 0);
      }
    }
  }

  /// Returns the KV head's part of a block. The offset has 64 bits, because block * stride exceeds 2^31 in large pools.
  __device__ simt::Global<const C> BlockOf(const void* cache, int64_t stride, int block) const {
    const int64_t head = work_.kv_head * (kHeadSize * p_.op.cache.block_size);
    return simt::Global<const C>(static_cast<const C*>(cache)) + (int64_t{simt::Max(block, 0)} * stride + head);
  }

  __device__ void WidenKeys() {
    const simt::SharedArray<uint16_t> raw = simt::As<uint16_t>(raw_keys_);
    const simt::SharedArray<uint32_t> keys = simt::As<uint32_t>(keys_);
#pragma unroll
    for (int i = 0; i < kKeyCopies; ++i) {
      const int chunk = simt::ThreadX() / kTokens + i * kSharers;
      if (kChunks % kSharers != 0 && chunk >= kChunks) break;
      const simt::Vec<uint16_t, 8> pairs = simt::LoadVec<8>(raw, (i * kThreads + simt::ThreadX()) * 8);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        simt::Vec<uint32_t, 4> wide;
#pragma unroll
        for (int j = 0; j < 4; ++j) wide.v[j] = simt::PairFromFp8<T>(pairs.v[half * 4 + j]);
        simt::StoreVec<4>(keys, Tiles::UnitAt(chunk * 2 + half, key_token_, kTokens) / 2, wide);
      }
    }
  }

  __device__ void WidenValues(int tile) {
    const simt::SharedArray<uint16_t> raw = simt::As<uint16_t>(raw_values_);
    const simt::SharedArray<uint32_t> values = simt::As<uint32_t>(values_);
#pragma unroll
    for (int i = 0; i < kValueCopies; ++i) {
      const simt::Vec<uint16_t, 4> pairs = simt::LoadVec<4>(raw, (i * kThreads + simt::ThreadX()) * 4);
      simt::Vec<uint32_t, 4> wide;
#pragma unroll
      for (int j = 0; j < 4; ++j) wide.v[j] = simt::PairFromFp8<T>(pairs.v[j]) & CountingMask(tile, j);
      simt::StoreVec<4>(values, (value_unit_ + i * kRowStep * 8) / 2, wide);
    }
  }

  /// Sets values outside [begin, end) to zero: their weight is 0, which would not cancel NaN or infinity.
  __device__ void ZeroStrangers(int tile) {
    const int group = tile * kTokens + value_group_ * 8;
    if (group >= work_.begin && group + 8 <= work_.end) return;
    const simt::SharedArray<uint32_t> values = simt::As<uint32_t>(Values(tile));
#pragma unroll
    for (int i = 0; i < kValueCopies; ++i) {
      const int at = (value_unit_ + i * kRowStep * 8) / 2;
      simt::Vec<uint32_t, 4> pairs = simt::LoadVec<4>(values, at);
#pragma unroll
      for (int j = 0; j < 4; ++j) pairs.v[j] &= CountingMask(tile, j);
      simt::StoreVec<4>(values, at, pairs);
    }
  }

  /// Returns a mask of pair j of the thread's group of value positions: the bits of positions in [begin, end) are set.
  __device__ uint32_t CountingMask(int tile, int j) const {
    const int token = tile * kTokens + value_group_ * 8 + j * 2;
    const uint32_t low = token >= work_.begin && token < work_.end ? 0xffffu : 0u;
    return low | (token + 1 >= work_.begin && token + 1 < work_.end ? 0xffff0000u : 0u);
  }

  const PrefillLaunch& p_;
  const PrefillWork& work_;
  simt::SharedArray<T> keys_, values_;
  simt::SharedArray<C> raw_keys_, raw_values_;
  int key_token_, value_group_, value_row_;  // start of the thread's share
  int key_unit_, value_unit_;
  int key_block_, value_block_;  // cache blocks from which this thread copies next; -1: it copies zeros
};

}  // namespace quire::kernels
