#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace quire {

/// Something outside the program is wrong: a file, a flag, a peer, the operating system.
/// The message names the place and the remedy; main() prints it and exits.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace quire

// A broken invariant is a bug: stop loudly. The message after the condition is a fmt format with its values.
#define QUIRE_CHECK(condition, ...)                                                           \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fmt::print(stderr, "{}:{}: invariant broken: {}: {}\n", __FILE__, __LINE__, #condition, \
                 fmt::format(__VA_ARGS__));                                                   \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
