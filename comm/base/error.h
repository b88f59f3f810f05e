#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace quire {

/// Reports a fault outside the program: in a file, a flag, a peer or the operating system. The message says where the
/// fault is and how to remedy it. main() prints the message of an Error that reaches it, and exits.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reports an error that no retry can mend: a model that is not supported, or settings that contradict the model or the
/// machine. A program that ends with this error has the exit status kSettingsStatus, so that supervisors do not start
/// the program again.
class SettingsError : public Error {
 public:
  using Error::Error;
};

inline constexpr int kSettingsStatus = 2;

/// Returns the exit status of a program that ends with this error: kSettingsStatus for a SettingsError, otherwise 1.
inline int StatusOf(const std::exception& error) {
  return dynamic_cast<const SettingsError*>(&error) != nullptr ? kSettingsStatus : 1;
}

template <class... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void FailSettings(fmt::format_string<Args...> format, Args&&... args) {
  throw SettingsError(fmt::format(format, std::forward<Args>(args)...));
}

/// Returns the result of `read`, which reads a file that the operator named, such as a model. Turns an Error of `read`
/// into a SettingsError.
template <class Read>
auto ReadAsSettings(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw SettingsError(error.what());
  }
}

}  // namespace quire

// Aborts with a message when `condition` is false, because a broken invariant is a bug. The further arguments are a fmt
// format and its values.
#define QUIRE_CHECK(condition, ...)                                                           \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fmt::print(stderr, "{}:{}: invariant broken: {}: {}\n", __FILE__, __LINE__, #condition, \
                 fmt::format(__VA_ARGS__));                                                   \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)
