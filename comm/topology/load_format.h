#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// The source of a model's weights.
enum class LoadFormat {
  kAuto,   // the model's files
  kDummy,  // random numbers in the shapes that config.json implies, to measure speed without the files
};
constexpr auto ChoicesOf(LoadFormat) {
  return std::to_array<Choice<LoadFormat>>({{LoadFormat::kAuto, "auto"}, {LoadFormat::kDummy, "dummy"}});
}

}  // namespace quire
