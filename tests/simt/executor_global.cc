#include <algorithm>
#include <cstring>

#include "simt/executor.h"

namespace quire::simt {

namespace {

constexpr int64_t kMostBlocks = int64_t{1} << 31;  // stamps have a bit for atomic operations

}  // namespace

void Executor::BeginLaunch(int64_t blocks) {
  late_.clear();
  if (int64_t{block_} + blocks >= kMostBlocks) block_ = 0;
  first_block_ = block_ + 1;
}

void Executor::NoteGlobal(Range& range, const std::byte* at, size_t size, Access access, Where where) {
  if (range.writers == nullptr) {
    if (access == Access::kRead) return;
    range.writers = std::make_shared<Writers>(range.end - range.begin);
  }
  const bool atomic = access == Access::kAtomic;
  uint32_t* stamps = range.writers->at(reinterpret_cast<uintptr_t>(at) - range.begin);
  const uint32_t mine = block_ * 2 + (atomic ? 1 : 0);
  for (size_t i = 0; i < size; ++i) {
    const uint32_t stamp = stamps[i], writer = stamp / 2;
    if (writer >= first_block_ && writer < block_ && !(atomic && stamp % 2 == 1)) {
      Fail((access == Access::kRead ? "reads" : "writes") + std::string(" what another block of this launch wrote"),
           where);
    }
    if (access != Access::kRead) stamps[i] = mine;
  }
}

void Executor::WriteLate(std::byte* to, const void* bytes, size_t size) {
  LateWrite write{to, {}, size, Now(Access::kWrite), block_};
  std::memcpy(write.bytes, bytes, size);
  late_.push_back(write);
}

void Executor::Release() {
  // Delivers writes that come before this release. The writes of one thread to one address stay in order, because late_
  // is ordered.
  const auto comes_before = [this](const LateWrite& write) {
    if (write.block != block_) return false;
    return write.stamp.thread == running_ || write.stamp.epoch < epoch_ || Before(write.stamp);
  };
  for (const LateWrite& write : late_) {
    if (comes_before(write)) std::memcpy(write.to, write.bytes, write.size);
  }
  std::erase_if(late_, comes_before);
}

void Executor::DeliverAll() {
  for (const LateWrite& write : late_) std::memcpy(write.to, write.bytes, write.size);
  late_.clear();
}

}  // namespace quire::simt
