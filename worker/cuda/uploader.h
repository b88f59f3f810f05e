#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "comm/model/formats/tensor.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device.h"
#include "worker/model/shard.h"

namespace quire {

/// A row of a matrix that is put together for the device: of a tensor in a mapped file, or zeros.
struct RowSource {
  const Tensor* tensor = nullptr;  // null: zeros
  int64_t row = 0;
};

/// Brings weights from mapped files to the device: threads read and convert into one half of a staging buffer while the
/// other half is copied.
class Uploader {
 public:
  /// `progress` is called with the bytes that are on their way.
  Uploader(Device& device, NumberType dtype, int threads, std::function<void(int64_t)> progress);
  ~Uploader();

  /// to[i, :] = columns `cols` of row i, then zeros up to `width` columns. `to` is [rows.size(), width] on the device.
  void Upload(void* to, const std::vector<RowSource>& rows, Range cols, int64_t width) {
    UploadPieces(to, rows, {cols}, width);
  }
  /// Likewise the columns of one piece after another.
  void UploadPieces(void* to, const std::vector<RowSource>& rows, const std::vector<Range>& pieces, int64_t width);
  /// Whole rows that stay quantised: `to` is the data of a kernels::QuantizedMatrix of that type [rows.size(),
  /// columns].
  void UploadQuantized(void* to, const std::vector<RowSource>& rows, Range cols, NumberType type);
  /// The numbers as they are, in fp32.
  void UploadFloats(float* to, std::span<const float> numbers);

 private:
  static constexpr int64_t kHalfBytes = int64_t{32} << 20;

  void WriteRow(const RowSource& source, const std::vector<Range>& pieces, int64_t width, std::byte* to) const;
  void WritePiece(const RowSource& source, Range cols, std::byte* to) const;
  /// The half of the staging buffer that comes next, once nothing is copied from it any more.
  std::byte* NextHalf();
  /// Queues copies of what it holds, one part behind the other, and turns to the other half.
  struct Part {
    void* to;
    int64_t bytes;
  };
  void Send(std::initializer_list<Part> parts);

  Device& device_;
  NumberType dtype_;
  kernels::ThreadPool threads_;
  std::function<void(int64_t)> progress_;
  DeviceMemory staging_;  // two halves
  int half_ = 0;
  bool in_use_[2] = {};
  int64_t uploaded_ = 0;
};

}  // namespace quire
