#pragma once

#include "comm/model/architecture.h"

// The families that there are; comm/model/architecture.cc lists them.
namespace quire::architectures {

extern const Architecture kLlama, kMistral;  // llama.cc
extern const Architecture kQwen2, kQwen3;    // qwen.cc

}  // namespace quire::architectures
