#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/device.h"

namespace quire::bench {

struct PagedShape {
  std::vector<int32_t> contexts;  // tokens of each sequence
  int32_t kv_heads = 8, group = 4, head_size = 128, block_size = 16;
  NumberType cache = NumberType::kBF16;
  bool ordered = false;  // true: consecutive blocks, as in contiguous memory; false: shuffled
};

/// The inputs of attention for one batch: block tables, other arrays, and random keys and values of one layer, in bf16
/// or FP8. There are several sets of keys and values. Each call uses the next set.
class PagedBatch {
 public:
  PagedBatch(const PagedShape& shape, Device& device);

  const PagedShape& shape() const { return shape_; }
  int64_t sets() const { return sets_; }
  int64_t num_blocks() const { return num_blocks_; }  // blocks of each set
  int32_t num_heads() const { return shape_.kv_heads * shape_.group; }
  int64_t row() const { return int64_t{num_heads()} * shape_.head_size; }  // elements of a token's queries
  int32_t max_context() const { return max_context_; }
  int64_t table_stride() const { return table_stride_; }
  double context_sum() const;
  std::vector<int32_t> BlocksOfSequence(size_t sequence) const;
  double kv_bytes() const;  // bytes of the sequences' tokens
  kernels::PagedCache Cache(int64_t set) const;

  const int32_t* tables() const { return tables_.as<int32_t>(); }      // [sequences, table_stride()]
  const int32_t* contexts() const { return contexts_.as<int32_t>(); }  // [sequences]
  const int32_t* kv_head_of() const { return kv_head_of_.as<int32_t>(); }
  const int32_t* head_start() const { return head_start_.as<int32_t>(); }
  const std::vector<int32_t>& host_head_start() const { return host_head_start_; }

 private:
  int64_t ElementBytes() const { return ByteSize(shape_.cache); }

  PagedShape shape_;
  int32_t max_context_;
  int64_t table_stride_, num_blocks_, sets_;
  std::vector<int32_t> host_head_start_, host_tables_;
  DeviceMemory keys_, values_, tables_, contexts_, kv_head_of_, head_start_;
};

/// Copies values to new device memory and waits.
template <class T>
DeviceMemory OnDevice(Device& device, const std::vector<T>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  DeviceMemory staging = device.AllocateHost(bytes, "inputs"), memory = device.Allocate(bytes, "inputs");
  std::copy(values.begin(), values.end(), staging.as<T>());
  device.CopyToDevice(memory.as<void>(), staging.as<void>(), bytes);
  device.Synchronize();
  return memory;
}

}  // namespace quire::bench
