#include "simt/global_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <map>
#include <new>

namespace quire::simt {

namespace {

std::map<uintptr_t, Range>& Ranges() {
  thread_local std::map<uintptr_t, Range> ranges;  // keyed by the range's beginning
  return ranges;
}

/// The range that was found last, which is mostly the range that is looked for next.
Range*& Found() {
  thread_local Range* found = nullptr;
  return found;
}

}  // namespace

Writers::Writers(size_t bytes) : bytes_(bytes * sizeof(uint32_t)) {
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  stamps_ = static_cast<uint32_t*>(p);
}

Writers::~Writers() { munmap(stamps_, bytes_); }

void RegisterGlobal(Range range) {
  Found() = nullptr;
  Ranges()[range.begin] = std::move(range);
}
void UnregisterGlobal(uintptr_t begin) {
  Found() = nullptr;
  Ranges().erase(begin);
}

Range& FindGlobal(uintptr_t address) {
  thread_local Range none;
  Range*& found = Found();
  if (found != nullptr && address >= found->begin && address < found->end) return *found;
  auto after = Ranges().upper_bound(address);
  if (after == Ranges().begin()) return none;
  Range& range = std::prev(after)->second;
  if (address > range.end) return none;
  found = &range;
  return range;
}

void MarkWritten(const void* data) { FindGlobal(reinterpret_cast<uintptr_t>(data)).written = true; }

GlobalBytes::GlobalBytes(size_t bytes) : bytes_(bytes == 0 ? 1 : bytes) {
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(p);
  const auto begin = reinterpret_cast<uintptr_t>(p);
  RegisterGlobal({begin, begin + bytes});
}

GlobalBytes::~GlobalBytes() {
  if (data_ == nullptr) return;
  UnregisterGlobal(reinterpret_cast<uintptr_t>(data_));
  munmap(data_, bytes_);
}

}  // namespace quire::simt
