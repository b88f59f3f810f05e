#pragma once

#include <array>
#include <optional>
#include <string>

#include "comm/base/choice.h"

namespace quire {

/// When a model's workers are started: kStart with the server, kRequest when a request needs the model.
enum class LoadMoment { kStart, kRequest };
constexpr auto ChoicesOf(LoadMoment) {
  return std::to_array<Choice<LoadMoment>>({{LoadMoment::kStart, "start"}, {LoadMoment::kRequest, "request"}});
}

/// When a model's workers are started and ended.
struct ModelLife {
  LoadMoment load = LoadMoment::kStart;
  double keep_alive = -1;  // seconds without requests after which the workers are ended; negative: never

  bool ends() const { return load == LoadMoment::kRequest || keep_alive >= 0; }
  bool operator==(const ModelLife&) const = default;
};

/// Parses the time for which a model stays loaded, in Ollama's spelling: seconds ("300"), or numbers with units ("5m",
/// "1h30m", "500ms"). Returns seconds; -1, which means that the model is never unloaded, for a negative time and for
/// more than 30 years. Returns nullopt for other texts.
std::optional<double> ParseKeepAlive(const std::string& text);

/// Returns `seconds`; for a negative number and for more than 30 years returns -1, which means: never unload.
double LimitedKeepAlive(double seconds);

}  // namespace quire
