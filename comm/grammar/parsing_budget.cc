#include "comm/grammar/parsing_budget.h"

#include <utility>

namespace quire {

namespace {

/// Returns the current budget of this thread; null when there is none.
ParsingBudget*& Current() {
  static thread_local ParsingBudget* current = nullptr;
  return current;
}

}  // namespace

ParsingBudget::ParsingBudget(int64_t units) : left_(units), outer_(std::exchange(Current(), this)) {}
ParsingBudget::~ParsingBudget() { Current() = outer_; }

void ChargeParsing(int64_t units) {
  ParsingBudget* budget = Current();
  if (budget == nullptr) return;
  budget->left_ -= units;
  if (budget->left_ < 0) throw ParsingBudget::Exceeded();
}

void ReportKeptStates(int64_t states) {
  if (Current() != nullptr) Current()->kept_ = states;
}

}  // namespace quire
