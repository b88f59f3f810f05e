#pragma once

#include "comm/model/architecture.h"

// The families that there are; comm/model/architecture.cc lists them.
namespace quire::architectures {

extern const Architecture kLlama, kMistral;  // llama.cc

}  // namespace quire::architectures
