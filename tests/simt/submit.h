#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <typeindex>
#include <utility>
#include <vector>

namespace quire::simt {

/// Work as a stream would take it: runs now, or is kept while the calling thread records a graph.
using Work = std::function<void()>;

/// Where the calling thread keeps submitted work; null: it runs at once.
inline std::vector<Work>*& Recording() {
  thread_local std::vector<Work>* recording = nullptr;
  return recording;
}

/// Work that all threads have recorded so far.
inline std::atomic<int64_t>& NumRecorded() {
  static std::atomic<int64_t> recorded{0};
  return recorded;
}

/// Kernels that the calling thread's device has loaded: those that it ran.
inline std::set<std::type_index>& LoadedKernels() {
  thread_local std::set<std::type_index> loaded;
  return loaded;
}

inline void Submit(Work work) {
  if (Recording() != nullptr) {
    Recording()->push_back(std::move(work));
    ++NumRecorded();
  } else {
    work();
  }
}

}  // namespace quire::simt
