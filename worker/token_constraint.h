#pragma once

#include <span>

#include "comm/types.h"

namespace quire {

/// What one sequence's generated tokens must keep to.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Sets to minus infinity the logits, of the whole vocabulary, of tokens that may not follow `generated`. The outcome
  /// depends on the arguments alone, whatever was asked before.
  virtual void Mask(std::span<const TokenId> generated, std::span<float> logits) = 0;

  /// True once that took more of a processor's time than one sequence may have of everybody's steps.
  virtual bool overworked() const { return false; }
};

}  // namespace quire
