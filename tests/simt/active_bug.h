#pragma once

namespace quire::simt {

/// Returns the planted bug that the kernels show, counted from 1; 0 is none.
inline int& ActiveBug() {
  thread_local int bug = 0;
  return bug;
}

}  // namespace quire::simt
