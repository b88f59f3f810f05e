#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <typeindex>
#include <utility>
#include <vector>

namespace quire::simt {

/// Work that is submitted to a stream. The work runs immediately, or is recorded if the calling thread records a graph.
using Work = std::function<void()>;

/// Returns the list that receives work which the calling thread submits; null if the thread records no graph, so that
/// work runs immediately.
inline std::vector<Work>*& Recording() {
  thread_local std::vector<Work>* recording = nullptr;
  return recording;
}

/// Returns a counter of the submissions that all threads of the process have recorded in graphs.
inline std::atomic<int64_t>& NumRecorded() {
  static std::atomic<int64_t> recorded{0};
  return recorded;
}

/// Returns the kernels that the calling thread's device has loaded, which are the kernels that it ran.
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
