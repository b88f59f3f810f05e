#pragma once

#include <cstdio>
#include <cstdlib>

// A broken precondition of a kernel is a bug of the caller: stop loudly, with the place and the condition.
#define QUIRE_KERNEL_CHECK(condition)                                                                  \
  do {                                                                                                 \
    if (!(condition)) {                                                                                \
      std::fprintf(stderr, "%s:%d: kernel precondition failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                    \
    }                                                                                                  \
  } while (false)
