#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

/// The most bytes that grammars take on one rank, by use. The default applies where memory is plentiful.
struct GrammarMemory {
  int64_t compiled = int64_t{128} << 20;  // compiled grammars of requests that wait or run
  int64_t cached = int64_t{64} << 20;     // compiled grammars that no request needs
  int64_t answers = int64_t{720} << 20;   // parsers of running answers

  int64_t total() const { return compiled + cached + answers; }

  /// Returns the division of at most `bytes`. No part exceeds the default.
  static GrammarMemory Within(int64_t bytes) {
    const GrammarMemory most;
    return {.compiled = std::min(most.compiled, bytes / 3),
            .cached = std::min(most.cached, bytes / 6),
            .answers = std::min(most.answers, bytes / 2)};
  }
};

}  // namespace quire
