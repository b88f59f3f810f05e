#pragma once

#include <cstdint>
#include <exception>

namespace quire {

/// Bounds what xgrammar's parser does on this thread while the object lives. xgrammar has no bound of its own: where a
/// text can be read in many ways, one token may take it seconds. Work is counted and not timed, so that every rank
/// comes to the same end. A unit is one state of the parser that is looked at, some 10 ns.
class ParsingBudget {
 public:
  /// Thrown from inside xgrammar by the charge that `units` no longer hold. A parser that it came out of is in no known
  /// state and must not be used again.
  struct Exceeded : std::exception {
    const char* what() const noexcept override { return "takes too much work: its texts can be read in many ways"; }
  };

  explicit ParsingBudget(int64_t units);
  ~ParsingBudget();
  ParsingBudget(const ParsingBudget&) = delete;
  ParsingBudget& operator=(const ParsingBudget&) = delete;

  int64_t left() const { return left_; }
  /// States that a parser keeps, as it said last; -1: it has not.
  int64_t kept() const { return kept_; }

 private:
  friend void ChargeParsing(int64_t units);
  friend void ReportKeptStates(int64_t states);

  int64_t left_;
  int64_t kept_ = -1;
  ParsingBudget* outer_;
};

// What xgrammar calls: cmake/QuireXgrammar.cmake puts the calls into copies of its sources. Without a budget on this
// thread they do nothing.
void ChargeParsing(int64_t units);
void ReportKeptStates(int64_t states);

}  // namespace quire
