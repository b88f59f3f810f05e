#pragma once

#include <simt/async_copy.cuh>

#include "kernels/cuda/decode/decode_attention.h"

namespace quire::kernels {

struct DecodeAttentionLaunch {
  DecodeAttentionParams op;
  int64_t first_items_at, merges_at, items_at;  // offsets in op.work
  // Workspace with an entry for each slot: partial: [.., kDecodeRows, head_size] results; max_score and exp_sum: [..,
  // kDecodeRows] largest scores (base-2 exponents) and sums of weights.
  float *partial, *max_score, *exp_sum;
};

/// A ring of stages in shared memory and the copies that fill it, tile by tile through all items of the CTA. T: type
/// of queries; C: type of the cache. A stage holds pieces of 16 bytes (kX elements of C, 8 of T):
///   keys     [head_size / kX][kTile tokens]       kX dimensions of one token
///   values   [kTile / kX][head_size]              kX tokens of one dimension, see Swizzle()
///   queries  [head_size / 8][kDecodeRows]         8 dimensions of one head; filled with the first tile of an item
/// Eight neighbouring pieces form a matrix for LoadMatrix and lie in different banks.
template <class T, class C, int kHeadSize>
struct DecodeTiles {
  static constexpr int kTile = kHeadSize > 128 ? 32 : 64;
  static constexpr int kThreads = 2 * kTile, kWarps = kThreads / 32;  // a warp attends to 16 tokens of a tile
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kCacheBytes = kTile * kHeadSize * sizeof(C);  // bytes of a tile's keys, and of its values
  static constexpr int kStageBytes = 2 * kCacheBytes + kDecodeRows * kHeadSize * sizeof(T);
  static constexpr int kNoteInts = 12;

  using Ints = simt::Vec<int32_t, 4>;

  /// The description of the tile in a stage, which all threads read. position < 0: the CTA has no more work.
  struct Tile {
    int position, begin, end;  // position of the tile's first token; range of visible positions
    bool first, last;          // first, last tile of its item
    int seq, first_head, num_heads, context, slot;
  };

  simt::SharedArray<uint8_t> ring;
  simt::SharedArray<int32_t> notes;  // [stages, kNoteInts]
  // The next tile to copy.
  int item, end_item;
  Ints who, range;            // seq, kv_head, first_head, num_heads; begin, end, context, slot
  Ints next_who, next_range;  // `who` and `range` of the following item
  int position;               // position of the tile's first token; -1: all tiles are copied
  int64_t table_row;          // start of the sequence's block table
  int block;                  // block of this thread's part of the tile; -1: its tokens are invisible

  /// This thread's share in copying a tile: 2 * tokens threads together copy `tokens` tokens of one block.
  struct Part {
    int block_size, block_shift;  // block_size = 1 << block_shift
    int tokens, begin;            // begin: first token, within the tile
    int token, chunk;             // keys: token within the part; first piece (0 or 1, then every other)
    int rows, row, dim;           // values: see ValueRows(); this thread's row; first dimension, then every (2 * kX)-th
    int swizzle_shift;            // 8 / rows = 1 << swizzle_shift
  } part;

  static __device__ Part PartOf(int block_size) {
    Part p;
    p.block_size = block_size, p.block_shift = 3;
    while (1 << p.block_shift < block_size) ++p.block_shift;
    p.tokens = simt::Min(block_size, kTile);
    const int thread = simt::ThreadX(), member = thread % (2 * p.tokens);
    p.begin = thread / (2 * p.tokens) * p.tokens;
    p.token = member % p.tokens, p.chunk = member / p.tokens;
    p.rows = ValueRows(block_size), p.row = member % p.rows, p.dim = member / p.rows;
    p.swizzle_shift = 0;
    while (p.rows << p.swizzle_shift < 8) ++p.swizzle_shift;
    return p;
  }

  /// Returns how many rows of values (16 bytes each) one block has for each dimension: 1, 2, 4 or 8.
  static __device__ int ValueRows(int block_size) { return simt::Max(simt::Min(block_size, kTile) / kX, 1); }
  /// Permutes the rows of 8 neighbouring dimensions' values, so that rows that are copied together lie in different
  /// banks.
  __device__ int Swizzle(int row) const { return (row & (part.rows - 1)) << part.swizzle_shift; }

  __device__ simt::SharedArray<C> Keys(int stage) const { return simt::As<C>(ring + stage * kStageBytes); }
  __device__ simt::SharedArray<C> Values(int stage) const {
    return simt::As<C>(ring + (stage * kStageBytes + kCacheBytes));
  }
  __device__ simt::SharedArray<T> Queries(int stage) const {
    return simt::As<T>(ring + (stage * kStageBytes + 2 * kCacheBytes));
  }

  __device__ void Begin(const DecodeAttentionLaunch& p) {
    part = PartOf(p.op.cache.block_size);
    const simt::Global<const int32_t> first = simt::Global<const int32_t>(p.op.work) + p.first_items_at;
    item = first[simt::BlockX()] - 1;
    end_item = first[simt::BlockX() + 1];
    position = -1;
    LoadNext(p);
    Advance(p);
  }

  __device__ void LoadNext(const DecodeAttentionLaunch& p) {
    if (item + 1 >= end_item) return;
    const simt::Global<const int32_t> work(p.op.work);
    next_who = simt::LoadVec<4>(work, p.items_at + (item + 1) * 8);
    next_range = simt::LoadVec<4>(work, p.items_at + (item + 1) * 8 + 4);
  }

  /// Advances to the next tile and reads its block id, so that the id has arrived when the next Fetch() copies the
  /// tile.
  __device__ void Advance(const DecodeAttentionLaunch& p) {
    if (position >= 0) position += kTile;
    if (position < 0 || position >= range.v[1]) {
      if (++item >= end_item) {
        position = -1;
        return;
      }
      who = next_who, range = next_range;
      position = range.v[0] / kTile * kTile;
      int row = who.v[0];
      if (p.op.table_rows != nullptr) row = simt::Global<const int32_t>(p.op.table_rows)[row];
      table_row = row * p.op.table_stride;
      LoadNext(p);
    }
    const int begin = position + part.begin;
    block = -1;
    if (begin < range.v[1] && begin + part.tokens > range.v[0]) {
      block = simt::Global<const int32_t>(p.op.block_tables)[table_row + (begin >> part.block_shift)];
    }
  }

  /// Starts to copy the next tile as one group (an empty group if there is no tile), and notes what the tile is.
  __device__ void Fetch(const DecodeAttentionLaunch& p, int stage) {
    const bool first = position >= 0 && position <= range.v[0];
    if (simt::ThreadX() == 0) {
      const int flags = first + 2 * (position + kTile >= range.v[1]);
      simt::StoreVec(notes, stage * kNoteInts, Ints{{position, range.v[0], range.v[1], flags}});
      simt::StoreVec(notes, stage * kNoteInts + 4, who);
      simt::StoreVec(notes, stage * kNoteInts + 8, range);
    }
    if (position >= 0) {
      if (first) CopyQueries(p, stage);
      CopyKeys(p, stage);
      CopyValues(p, stage);
      Advance(p);
    }
    simt::CommitCopies();
  }

  __device__ Tile Read(int stage) const {
    const Ints at = simt::LoadVec<4>(notes, stage * kNoteInts), of = simt::LoadVec<4>(notes, stage * kNoteInts + 4),
               in = simt::LoadVec<4>(notes, stage * kNoteInts + 8);
    return {at.v[0], at.v[1], at.v[2], at.v[3] % 2 != 0, at.v[3] / 2 != 0, of.v[0], of.v[2], of.v[3], in.v[2], in.v[3]};
  }

  /// Waits until the oldest of this thread's last (stages - 1) groups of copies is complete.
  static __device__ void WaitForOldest(int stages) {
    if (stages == 2) simt::WaitForCopies<0>();
    if (stages == 3) simt::WaitForCopies<1>();
    if (stages == 4) simt::WaitForCopies<2>();
  }

  /// Copies the queries; rows beyond the item's heads become 0.
  __device__ void CopyQueries(const DecodeAttentionLaunch& p, int stage) const {
    const simt::Global<const T> from(static_cast<const T*>(p.op.queries));
    const int64_t base = who.v[0] * p.op.query_stride + int64_t{who.v[2]} * kHeadSize;
    const simt::SharedArray<T> to = Queries(stage);
    for (int i = simt::ThreadX(); i < kHeadSize / 8 * kDecodeRows; i += kThreads) {
      const int row = i / (kHeadSize / 8), piece = i % (kHeadSize / 8);
      simt::CopyAsync<16>(to, (piece * kDecodeRows + row) * 8, from, base + row * kHeadSize + piece * 8,
                          row < who.v[3]);
    }
  }

  /// Returns the offset of the item's KV head in the thread's block, in elements from the beginning of the cache. For a
  /// block without a visible token, which is not read, the offset is that of block 0.
  __device__ int64_t HeadOfBlock(int64_t block_stride) const {
    return simt::Max(block, 0) * block_stride + int64_t{who.v[1]} * (kHeadSize * part.block_size);
  }

  /// Copies the tile's keys. Each thread copies every other 16 bytes of one token's key. Keys in blocks without a
  /// visible token become 0.
  __device__ void CopyKeys(const DecodeAttentionLaunch& p, int stage) const {
    const simt::Global<const C> from(static_cast<const C*>(p.op.cache.keys));
    const int64_t base =
        HeadOfBlock(p.op.cache.key_block_stride) + ((position & (part.block_size - 1)) + part.token) * kX;
    const simt::SharedArray<C> to = Keys(stage);
#pragma unroll
    for (int c = 0; c < kHeadSize / kX; c += 2) {
      const int chunk = c + part.chunk;
      if (kHeadSize / kX % 2 != 0 && chunk >= kHeadSize / kX) break;
      simt::CopyAsync<16>(to, (chunk * kTile + part.begin + part.token) * kX, from, base + chunk * part.block_size * kX,
                          block >= 0);
    }
  }

  /// Copies the tile's values. Each thread copies 16 bytes of every (2 * kX)-th dimension.
  __device__ void CopyValues(const DecodeAttentionLaunch& p, int stage) const {
    const simt::Global<const C> from(static_cast<const C*>(p.op.cache.values));
    const int64_t head = HeadOfBlock(p.op.cache.value_block_stride);
    const simt::SharedArray<C> to = Values(stage);
    if (part.tokens < kX) return CopyHalfRows(from, head, to);
    const int64_t base = head + (position & (part.block_size - 1)) + part.row * kX;
    const int to_row = (part.begin / kX + part.row) * kHeadSize, swizzle = Swizzle(part.row);
#pragma unroll
    for (int d = 0; d < kHeadSize; d += 2 * kX) {
      const int dim = d + part.dim;
      if (kHeadSize % (2 * kX) != 0 && dim >= kHeadSize) break;
      simt::CopyAsync<16>(to, (to_row + (dim ^ swizzle)) * kX, from, base + dim * part.block_size, block >= 0);
    }
  }

  /// Copies values of blocks with 8 one-byte tokens, where two blocks share each row of 16 bytes.
  __device__ void CopyHalfRows(const simt::Global<const C>& from, int64_t head, const simt::SharedArray<C>& to) const {
    constexpr int kHalf = sizeof(C) == 1 ? 8 : kX;
    const int to_row = part.begin / kX * kHeadSize, half = part.begin % kX;
    for (int d = part.dim; d < kHeadSize; d += 2 * kHalf) {
      simt::CopyAsync<kHalf* static_cast<int>(sizeof(C))>(to, (to_row + d) * kX + half, from, head + d * kHalf,
                                                          block >= 0);
    }
  }
};

}  // namespace quire::kernels
