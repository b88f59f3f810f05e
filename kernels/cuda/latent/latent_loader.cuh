#pragma once

#include <simt/async_copy.cuh>
#include <simt/tensor_core.cuh>
#include <type_traits>

#include "kernels/cuda/latent/latent_attention.h"
#include "kernels/cuda/prefill/prefill_attention_tiles.cuh"

namespace quire::kernels {

/// Loads tiles of kLatentTokens paged rows, each from a multiple of kLatentTokens on, into shared memory, in the order
/// of UnitOf (8 neighbouring numbers of a row are a unit). Rows from work.end on become zeros, so that a weight of 0
/// meets no NaN. Lane l of every warp copies 16 bytes at a time of the tile's row l. Copies are asynchronous, one tile
/// ahead; block ids are read a tile before that. FP8 is copied unchanged, and then widened by the thread that copied
/// it.
template <class T, class C, int kWarps>
class LatentLoader {
 public:
  static constexpr int kTileSize = kLatentTokens * kLatentHeadSize;
  static constexpr bool kWidens = !std::is_same_v<T, C>;
  static constexpr int kStages = kWidens ? 1 : 2;  // tiles of T

  static constexpr int64_t SharedSize() {
    return simt::SharedBytes(kStages * kTileSize * sizeof(T)) + (kWidens ? simt::SharedBytes(kTileSize) : 0);
  }

  struct Memory {
    simt::SharedArray<T> tiles;
    simt::SharedArray<C> raw;
  };
  static __device__ Memory Take(simt::SharedArena& arena) {
    const simt::SharedArray<T> tiles = arena.template Take<T>(kStages * kTileSize);
    return {tiles, arena.template Take<C>(kWidens ? kTileSize : 0)};
  }

  __device__ LatentLoader(const PagedCache& cache, const PrefillWork& work, const Memory& memory)
      : cache_(cache), work_(work), memory_(memory), shift_(3) {
    while (1 << shift_ < cache.block_size) ++shift_;
    ReadBlock(work.begin / kLatentTokens);
  }

  /// Starts to copy a tile. The tile two before it was the last to use the same memory; with FP8, the previous tile
  /// was, and its raw numbers are already widened. Call it in the order of tiles.
  __device__ void Start(int tile) {
    const int position = tile * kLatentTokens + Lane(), offset = position & (cache_.block_size - 1);
    const simt::Global<const C> from =
        simt::Global<const C>(static_cast<const C*>(cache_.keys)) + simt::Max(block_, 0) * cache_.key_block_stride;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int piece = Warp() + i * kWarps, at = (piece * cache_.block_size + offset) * kX;
      if (kPieces % kWarps != 0 && piece >= kPieces) break;
      if constexpr (kWidens) {
        simt::CopyAsync<16>(memory_.raw, (piece * kLatentTokens + Lane()) * kX, from, at, block_ >= 0);
      } else {
        simt::CopyAsync<16>(Tile(tile), UnitOf(piece, Lane(), kLatentTokens), from, at, block_ >= 0);
      }
    }
    simt::CommitCopies();
    ReadBlock(tile + 1);
  }

  /// Waits for this thread's share of the tile and completes it. After a barrier the whole tile is complete.
  __device__ void Finish() {
    simt::WaitForCopies<0>();
    if constexpr (kWidens) {
      simt::SyncThreads();  // all threads have left the only tile of wide numbers
      Widen();
    }
  }

  __device__ simt::SharedArray<T> Tile(int tile) const { return memory_.tiles + (tile & (kStages - 1)) * kTileSize; }

 private:
  static constexpr int kX = 16 / sizeof(C);
  static constexpr int kPieces = kLatentHeadSize / kX;  // 16 bytes each, of one row
  static constexpr int kCopies = (kPieces + kWarps - 1) / kWarps;

  static __device__ int Lane() { return simt::ThreadX() % 32; }
  static __device__ int Warp() { return simt::ThreadX() / 32; }

  /// Reads the block of the thread's row of a tile; -1: the row is after the work's end.
  __device__ void ReadBlock(int tile) {
    const int position = tile * kLatentTokens + Lane();
    block_ = -1;
    if (position < work_.end) block_ = work_.table[position >> shift_];
  }

  __device__ void Widen() {
    const simt::SharedArray<uint16_t> raw = simt::As<uint16_t>(memory_.raw);
    const simt::SharedArray<uint32_t> wide = simt::As<uint32_t>(memory_.tiles);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int piece = Warp() + i * kWarps;
      if (kPieces % kWarps != 0 && piece >= kPieces) break;
      const simt::Vec<uint16_t, 8> pairs = simt::LoadVec<8>(raw, (piece * kLatentTokens + Lane()) * 8);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        simt::Vec<uint32_t, 4> unit;
#pragma unroll
        for (int j = 0; j < 4; ++j) unit.v[j] = simt::PairFromFp8<T>(pairs.v[half * 4 + j]);
        simt::StoreVec<4>(wide, UnitOf(piece * 2 + half, Lane(), kLatentTokens) / 2, unit);
      }
    }
  }

  const PagedCache& cache_;
  const PrefillWork& work_;
  const Memory memory_;
  int shift_;  // log2(block_size)
  int block_;  // block of the thread's row of the tile to start next
};

}  // namespace quire::kernels
