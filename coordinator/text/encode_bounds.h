#pragma once

#include <cstdint>
#include <stop_token>

#include "comm/base/error.h"

namespace quire {

class SplitBudget;

/// What may end the encoding of a text early.
struct EncodeBounds {
  std::stop_token stop;  // looked at with every piece, and every few thousand merges within one
  size_t max_tokens = SIZE_MAX;
  SplitBudget* splitting = nullptr;  // for all texts that are encoded with it; null: each has its own
};

/// There are more tokens than EncodeBounds allow.
struct TooManyTokens : Error {
  TooManyTokens() : Error("the text has too many tokens") {}
};

/// Whoever wanted the tokens asked to stop.
struct Stopped : Error {
  Stopped() : Error("nobody waits for it any more") {}
};

inline void CheckStop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Stopped();
}

}  // namespace quire
