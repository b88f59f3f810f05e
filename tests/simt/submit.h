#pragma once

#include <functional>
#include <vector>

namespace quire::simt {

/// Work as a stream would take it: runs now, or is kept while the calling thread records a graph.
using Work = std::function<void()>;

/// Where the calling thread keeps submitted work; null: it runs at once.
inline std::vector<Work>*& Recording() {
  thread_local std::vector<Work>* recording = nullptr;
  return recording;
}

inline void Submit(Work work) {
  if (Recording() != nullptr) {
    Recording()->push_back(std::move(work));
  } else {
    work();
  }
}

}  // namespace quire::simt
