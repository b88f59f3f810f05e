#pragma once

#include <algorithm>

namespace quire {

/// Decides how many draft tokens one sequence gets in a step, from the fraction of its earlier draft tokens that were
/// accepted. Snapshots contain this object.
class DraftPace {
 public:
  /// Returns the number of drafts, at most `most`, with which a step should gain the most tokens for its time: 0 in a
  /// pause, otherwise at least 1. `row_cost`: time of one drafted token, as a fraction of a step's time for one
  /// sequence.
  int Length(int most, double row_cost) const {
    if (rest_ > 0) return 0;
    // At least one draft token is tried, because it shows whether the text has become easier to predict.
    return std::max(BestLength(most, row_cost), std::min(most, 1));
  }
  /// Returns the number of tokens to order from a draft model, at most `most` (most >= 1). `token_cost`: time to draft
  /// and verify one token, as a fraction of a step's time for one sequence. Returns 0 where a draft would cost more
  /// than it saves. Then the sequence pauses, longer each time, and orders one token after each pause, because text and
  /// costs change.
  int LengthToOrder(int most, double token_cost) {
    const int best = BestLength(most, token_cost);
    if (best > 0) {
      unpaid_ = 0;
    } else if (!tries_) {
      rest_ = 2 << std::min(unpaid_++, 4);
    }
    tries_ = best == 0 && !tries_;
    return best > 0 || tries_ ? best : 1;
  }
  /// True when the sequence gets no drafts even after it has gained `tokens` more tokens.
  bool RestsAfter(int tokens) const { return rest_ > tokens; }
  /// True when the sequence may get drafts in the next step, which must therefore wait for results.
  bool IsReady() const { return rest_ == 0; }

  /// Begins a pause, because no draft was found for the sequence.
  void FoundNothing() { Rest(); }
  /// Returns how many drafts the sequence can pay from its credit. One draft costs `row_cost`, and a step with drafts
  /// costs `wait_cost` besides. The unit of costs and credit is a step's time for one sequence. If no draft is ever
  /// right, the sequence loses at most a hundredth of its time and a quarter of a step.
  int Affordable(double row_cost, double wait_cost) const {
    return static_cast<int>((credit_ - wait_cost) / std::max(row_cost, kLeastCost));
  }
  /// Subtracts the cost of a step with drafts from the sequence's credit, whether the drafts were right or wrong.
  void Spend(double cost) { credit_ -= cost; }

  /// Learns that `right` of `count` drafts were right.
  void Verified(int right, int count) {
    credit_ += right;
    constexpr double kKept = 0.9;  // weight of older drafts in the estimate
    right_ = kKept * right_ + right;
    tried_ = kKept * tried_ + right + (right < count ? 1 : 0);
    if (right == 0) return Rest();
    failures_ = 0;
  }
  /// Shortens the pause without drafts by `tokens` tokens that the sequence gained, and adds a little credit for each
  /// of them.
  void Gained(int tokens) {
    rest_ = std::max(0, rest_ - tokens);
    credit_ = std::min(kMostCredit, credit_ + kCreditOfToken * tokens);
  }

 private:
  static constexpr double kFirstCredit = 0.25;    // credit at the start, in step times: one draft at usual costs
  static constexpr double kCreditOfToken = 0.01;  // credit of each token, in step times: the time that drafts may lose
  static constexpr double kMostCredit = 32;       // most credit, in step times, so that old savings pay for few drafts
  static constexpr double kLeastCost = 0.01;      // least cost of a draft, in step times

  /// Begins a pause: the sequence gets no drafts for the next 2 to 32 tokens. Steps can be planned ahead meanwhile,
  /// which drafts prevent.
  void Rest() { rest_ = 2 << std::min(failures_++, 4); }
  double Chance() const { return right_ / tried_; }
  /// Returns the number of drafts with which a step is expected to gain the most tokens for its time; 0: no drafts.
  /// `cost`: time of one draft, as a fraction of a step's time for one sequence.
  int BestLength(int most, double cost) const {
    int best = 0;
    double gained = 1, reach = 1, highest = 1;  // tokens; probability that draft i is right; most tokens per cost
    for (int length = 1; length <= most; ++length) {
      gained += reach *= Chance();
      const double per_cost = gained / (1 + cost * length);
      if (per_cost <= highest) break;
      best = length;
      highest = per_cost;
    }
    return best;
  }

  double right_ = 2, tried_ = 3;  // right drafts, and drafts whose predecessors were all right; older drafts count less
  int rest_ = 0;                  // tokens until the next drafts
  int failures_ = 0;              // attempts in a row without a right draft
  int unpaid_ = 0;                // pauses in a row since a draft of the draft model was expected to save time
  double credit_ = kFirstCredit;  // time that drafts may still cost, in step times (Affordable)
  bool tries_ = false;            // the next order to the draft model is a trial after a pause
};

}  // namespace quire
