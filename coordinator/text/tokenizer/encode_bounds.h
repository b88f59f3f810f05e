#pragma once

#include <cstdint>
#include <stop_token>

#include "comm/base/error.h"

namespace quire {

class SplitBudget;

/// Bounds that may end the encoding of a text before its end.
struct EncodeBounds {
  std::stop_token stop;  // checked with every piece, and every few thousand merges within a piece
  size_t max_tokens = SIZE_MAX;
  SplitBudget* splitting = nullptr;  // a budget that several texts share; null: each text gets its own
};

/// The error for a text with more tokens than EncodeBounds allows.
struct TooManyTokens : Error {
  TooManyTokens() : Error("the text has too many tokens") {}
};

/// The error after a stop was requested.
struct Stopped : Error {
  Stopped() : Error("nobody waits for it any more") {}
};

inline void CheckStop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Stopped();
}

}  // namespace quire
