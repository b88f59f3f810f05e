#pragma once

namespace quire::simt {

/// Which planted bug the kernels show, from 1 on; 0: none.
inline int& ActiveBug() {
  thread_local int bug = 0;
  return bug;
}

}  // namespace quire::simt
