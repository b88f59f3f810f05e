#pragma once

#include <string>

#include "comm/base/error.h"

namespace quire {

/// Returns the message of the exception of type Thrown that `work` throws, or `otherwise` if it throws nothing. Does
/// not catch other exceptions.
template <class Thrown = Error, class Work>
std::string ErrorThrownBy(const Work& work, const char* otherwise = "") {
  try {
    work();
  } catch (const Thrown& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace quire
