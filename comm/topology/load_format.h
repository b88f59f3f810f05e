#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// Where a model's weights come from.
enum class LoadFormat {
  kAuto,   // its files
  kDummy,  // random numbers of the shapes that config.json asks for, to measure speed without the files
};
constexpr auto ChoicesOf(LoadFormat) {
  return std::to_array<Choice<LoadFormat>>({{LoadFormat::kAuto, "auto"}, {LoadFormat::kDummy, "dummy"}});
}

}  // namespace quire
