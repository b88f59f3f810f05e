#pragma once

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "comm/base/number_type.h"
#include "kernels/stream.h"

// Runs one test body for every operation on both devices and for several types. Without a GPU the CUDA device is
// emulated.
namespace quire::kernels::test_case {

/// A type that an operation computes in, and the tolerance of a result that was rounded once to this type, relative to
/// max(1, |result|).
struct OpType {
  NumberType dtype;
  double tolerance;
};

struct Cpu {
  static constexpr const char* kName = "Cpu";
  static constexpr OpType kTypes[] = {{NumberType::kF32, 2e-6}};
  static constexpr int64_t kColumns[] = {1, 7, 8, 33, 1000};  // numbers of columns with and without whole vectors
  CpuStream stream{2};
};

struct Cuda {
  static constexpr const char* kName = "Cuda";
  static constexpr OpType kTypes[] = {
      {NumberType::kF32, 2e-6}, {NumberType::kF16, 0x1p-11 + 2e-6}, {NumberType::kBF16, 0x1p-8 + 2e-6}};
  static constexpr int64_t kColumns[] = {8, 1000, 4096 + 8};  // rows are multiples of 16 bytes of every type
  CudaStream stream;
};

/// Calls the body for every type of the device, or for every type and number of columns.
template <class Device>
class OpTest : public testing::Test {
 protected:
  template <class Body>
  void ForEachType(const Body& body) {
    for (const OpType& type : Device::kTypes) body(type.dtype, type.tolerance);
  }
  template <class Body>
  void ForEachTypeAndSize(const Body& body) {
    for (const OpType& type : Device::kTypes) {
      for (const int64_t columns : Device::kColumns) {
        SCOPED_TRACE(testing::Message() << LayoutOf(type.dtype).name << ", " << columns << " columns");
        body(type.dtype, type.tolerance, columns);
      }
    }
  }

  Device device_;
};

using Devices = testing::Types<Cpu, Cuda>;
struct DeviceName {
  template <class Device>
  static std::string GetName(int) {
    return Device::kName;
  }
};

}  // namespace quire::kernels::test_case
