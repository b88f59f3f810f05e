#pragma once

// This is the emulator's version of kernels/cuda/simt/async_copy.cuh. A copy reads its source when the copy starts. The
// bytes arrive when the issuing thread has waited for the copy; until then no thread may touch the destination.

#include <simt/device.cuh>

namespace quire::simt {

template <int kBytes, class T>
void CopyAsync(const SharedArray<T>& to, Index i, const Global<const T>& from, Index j, bool valid = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  using Chunk = Vec<T, kBytes / sizeof(T)>;
  static_assert(sizeof(Chunk) == kBytes && alignof(Chunk) == kBytes);
  const Chunk chunk = valid ? from.template Read<Chunk>(j) : Chunk{};
  Executor::Current().StartCopy(to.template Offset<Chunk>(i), &chunk, kBytes, i.where);
}
inline void CommitCopies() { Executor::Current().CommitCopies(); }
template <int kPending>
void WaitForCopies(Where where = Where::current()) {
  Executor::Current().WaitForCopies(kPending, where);
}

}  // namespace quire::simt
