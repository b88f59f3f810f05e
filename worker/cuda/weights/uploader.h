#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "comm/model/formats/tensor.h"
#include "comm/model/model_files.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/device.h"
#include "worker/model/shard.h"
#include "worker/model/weight_slice.h"

namespace quire {

/// One row of a matrix to upload: a row of a tensor in a mapped file, or zeros.
struct RowSource {
  const Tensor* tensor = nullptr;  // null: zeros
  int64_t row = 0;
};

/// Uploads weights from mapped files. Threads read and convert into one half of a staging buffer while the other half
/// is copied to the device.
class Uploader {
 public:
  /// Calls `progress` with the bytes queued so far.
  Uploader(Device& device, NumberType dtype, int threads, std::function<void(int64_t)> progress);
  ~Uploader();

  /// Uploads to[i, :] = columns `cols` of row i, then zeros up to `width` columns. `to` is [rows.size(), width] on the
  /// device.
  void Upload(void* to, const std::vector<RowSource>& rows, Range cols, int64_t width) {
    UploadPieces(to, rows, {cols}, width);
  }
  /// Does what Upload does, with the columns of several pieces of row i. In `to`, the columns of one piece follow those
  /// of the piece before it.
  void UploadPieces(void* to, const std::vector<RowSource>& rows, const std::vector<Range>& pieces, int64_t width);
  /// Uploads columns `cols` of the rows in quantised form. `to` is the data of a kernels::QuantizedMatrix of type
  /// `type`, [rows.size(), cols.size()].
  void UploadQuantized(void* to, const std::vector<RowSource>& rows, Range cols, NumberType type);
  /// Uploads fp32 numbers unchanged.
  void UploadFloats(float* to, std::span<const float> numbers);

 private:
  static constexpr int64_t kHalfBytes = int64_t{32} << 20;

  void WriteRow(const RowSource& source, const std::vector<Range>& pieces, int64_t width, std::byte* to) const;
  void WritePiece(const RowSource& source, Range cols, std::byte* to) const;
  /// Returns the next half of the staging buffer; waits until its last copy has finished.
  std::byte* NextHalf();
  /// Send() queues copies of the current half, which holds these parts one after another, and switches to the other
  /// half.
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
