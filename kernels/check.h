#pragma once

#include <cstdio>
#include <cstdlib>

// Aborts with the source line and the condition if a kernel's precondition is broken. Only a bug of the caller can
// break it.
#define QUIRE_KERNEL_CHECK(condition)                                                                  \
  do {                                                                                                 \
    if (!(condition)) {                                                                                \
      std::fprintf(stderr, "%s:%d: kernel precondition failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                    \
    }                                                                                                  \
  } while (false)
