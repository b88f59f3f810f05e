#pragma once

#include <cstdint>
#include <exception>

namespace quire {

/// Bounds the work of xgrammar's parser on this thread while the object lives. xgrammar has no bound of its own, and
/// one token of an ambiguous text may take seconds. Work is counted and not timed, so that every rank stops at the same
/// point. A unit is one parser state that is examined, some 10 ns.
class ParsingBudget {
 public:
  /// Thrown from inside xgrammar by the call that exceeds `units`. The parser is then in an undefined state and must
  /// not be used again.
  struct Exceeded : std::exception {
    const char* what() const noexcept override { return "takes too much work: its texts can be read in many ways"; }
  };

  explicit ParsingBudget(int64_t units);
  ~ParsingBudget();
  ParsingBudget(const ParsingBudget&) = delete;
  ParsingBudget& operator=(const ParsingBudget&) = delete;

  int64_t left() const { return left_; }
  /// Returns the number of states that the parser keeps, as last reported; -1: not reported yet.
  int64_t kept() const { return kept_; }

 private:
  friend void ChargeParsing(int64_t units);
  friend void ReportKeptStates(int64_t states);

  int64_t left_;
  int64_t kept_ = -1;
  ParsingBudget* outer_;
};

// ChargeParsing counts units against the thread's budget, and ReportKeptStates reports how many states the parser
// keeps. xgrammar calls both: cmake/QuireXgrammar.cmake inserts the calls into copies of its sources. The functions do
// nothing on a thread without a budget.
void ChargeParsing(int64_t units);
void ReportKeptStates(int64_t states);

}  // namespace quire
