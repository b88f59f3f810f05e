#pragma once

#include <string>

#include "comm/base/error.h"

namespace quire {

/// The words of the Error that `work` throws; `otherwise` where it throws none.
template <class Work>
std::string ErrorThrownBy(const Work& work, const char* otherwise = "") {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace quire
