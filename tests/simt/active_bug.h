#pragma once

namespace quire::simt {

/// Returns the planted bug that is active in the kernels, counted from 1; 0 means none.
inline int& ActiveBug() {
  thread_local int bug = 0;
  return bug;
}

}  // namespace quire::simt
