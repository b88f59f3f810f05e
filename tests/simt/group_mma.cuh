#pragma once

// The emulator's version of kernels/cuda/simt/group_mma.cuh, which describes the layouts. A product is computed when
// the thread waits for it. So registers that are read too early hold old values, and shared memory that is overwritten
// too early gives wrong results.

#include <simt/tensor_core.cuh>

namespace quire::simt {

template <class T>
struct GroupMatrix {
  SharedArray<T> array;
  int64_t begin;
  int32_t group_stride;
};

/// A lane's part of A, and the two rows of A that the lane's part of D needs.
struct GroupRows {
  const uint32_t* a;
  float rows[2][16];
};
template <class T>
void ShareGroupRows(void* const (&lanes)[32]) {
  float a[16][16];
  for (int l = 0; l < 32; ++l) UnpackRows<T>(static_cast<const GroupRows*>(lanes[l])->a, l, a);
  for (int l = 0; l < 32; ++l) {
    auto& mine = *static_cast<GroupRows*>(lanes[l]);
    for (int half = 0; half < 2; ++half) std::copy(a[l / 4 + half * 8], a[l / 4 + half * 8] + 16, mine.rows[half]);
  }
}

/// Reads column `column` of B, which has 16 numbers: 8 neighbouring numbers (a unit of 16 bytes), and 8 others that
/// begin `group_stride` elements further on.
template <class T>
void ReadGroupColumn(const GroupMatrix<T>& b, int column, float (&numbers)[16], Where where) {
  for (int group = 0; group < 2; ++group) {
    const int64_t at = b.array.template Offset<Vec<T, 8>>(Index(b.begin + group * b.group_stride + column * 8, where));
    const auto* unit = reinterpret_cast<const T*>(Executor::Current().SharedForGroup(at, 16, where));
    for (int i = 0; i < 8; ++i) numbers[group * 8 + i] = ToFloat(unit[i]);
  }
}

template <class T, int kColumns>
void GroupMma(float (&d)[kColumns / 8][4], const uint32_t (&a)[4], const GroupMatrix<T>& b, bool adds,
              Where where = Where::current()) {
  static_assert(kColumns == 64 || kColumns == 128);
  GroupRows mine{a, {}};
  Executor& executor = Executor::Current();
  executor.Exchange(&mine, &ShareGroupRows<T>, where);
  executor.QueueGroupMma(
      [mine, b, adds, where, to = &d] {
        const int lane = Executor::Current().lane();
        for (int i = 0; i < kColumns / 8; ++i) {
          for (int e = 0; e < 2; ++e) {
            float column[16];
            ReadGroupColumn(b, i * 8 + lane % 4 * 2 + e, column, where);
            for (int half = 0; half < 2; ++half) {
              float sum = 0;
              for (int k = 0; k < 16; ++k) sum += mine.rows[half][k] * column[k];
              float& out = (*to)[i][half * 2 + e];
              out = adds ? out + sum : sum;
            }
          }
        }
      },
      where);
}

template <int kUnits, int kSteps>
void BeginGroupMmas(float (&)[kUnits][4], uint32_t (&)[kSteps][4]) {
  Executor::Current().BeginGroupMmas();
}
template <int kUnits, int kSteps>
void WaitForGroupMmas(float (&)[kUnits][4], uint32_t (&)[kSteps][4]) {
  Executor::Current().WaitForGroupMmas();
}
inline void ShareWithGroupMmas() { Executor::Current().ShareWithGroupMmas(); }

/// Returns true for every emulated device, so that kernels with warpgroup products run in the emulator.
inline bool DeviceHasGroupMma() { return true; }

}  // namespace quire::simt
