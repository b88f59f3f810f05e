#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <typeinfo>

namespace quire::simt {

inline std::string KernelName(const std::type_info& kernel) {
  char* text = abi::__cxa_demangle(kernel.name(), nullptr, nullptr, nullptr);
  const std::string name = text != nullptr ? text : kernel.name();
  std::free(text);
  return name;
}

}  // namespace quire::simt
