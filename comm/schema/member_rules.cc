#include "comm/schema/member_rules.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace quire {

namespace {

constexpr size_t kMostInAnyOrder = 5;

/// Writes one rule for each state. A state says which members may still come, and how many have come if they are
/// counted.
class MemberWriter {
 public:
  MemberWriter(RuleText& rules, const std::vector<MemberRule>& members, const std::vector<std::string>& others,
               const Counts& counts, const MemberSigns& signs)
      : rules_(rules), others_(others), counts_(counts), signs_(signs) {
    const auto required = static_cast<size_t>(std::ranges::count(members, true, &MemberRule::required));
    const bool all = members.size() <= kMostInAnyOrder;
    in_order_ = others.empty() || required > kMostInAnyOrder;
    for (const MemberRule& member : members) {
      const bool waits = others.empty() || all || member.required;
      if (waits) {
        awaited_.push_back(member);
      } else {
        others_.push_back(member.rule);
      }
    }
  }

  /// Returns the name of the rule for all members and the object's end. If the object may be empty, its end alone is an
  /// alternative. Returns an empty name if no object is possible.
  std::string Begin() {
    const State first = {in_order_ ? 0u : (1u << awaited_.size()) - 1, 0};
    std::vector<std::string> ways;
    if (CanGoOn(first)) ways.push_back(Pick(first));
    if (CanEnd(first)) ways.push_back(signs_.end);
    return ways.empty() ? "" : rules_.Add(OneOf(ways));
  }

 private:
  /// `ahead`: if members come in a fixed order, the index of the next member; if they come in any order, a bit for each
  /// member that has not come.
  struct State {
    size_t ahead;
    size_t count;
    auto operator<=>(const State&) const = default;
  };

  bool IsAhead(const State& state, size_t member) const {
    return in_order_ ? member >= state.ahead : (state.ahead >> member & 1) != 0;
  }
  State Behind(const State& state, size_t member) const {
    return Counted({in_order_ ? member + 1 : state.ahead & ~(size_t{1} << member), state.count});
  }
  State Counted(State state) const {
    if (counts_.bounded()) state.count = std::min(state.count + 1, counts_.most.value_or(counts_.least));
    return state;
  }
  bool CanEnd(const State& state) const {
    for (size_t i = 0; i < awaited_.size(); ++i) {
      if (awaited_[i].required && IsAhead(state, i)) return false;
    }
    return state.count >= counts_.least;
  }
  /// True when the object's end can be reached from this state.
  bool CanFinish(const State& state) const {
    size_t required = 0, ahead = 0;
    for (size_t i = 0; i < awaited_.size(); ++i) {
      if (!IsAhead(state, i)) continue;
      ++ahead;
      if (awaited_[i].required) ++required;
    }
    return state.count + required <= counts_.most.value_or(SIZE_MAX) &&
           (!others_.empty() || state.count + ahead >= counts_.least);
  }
  bool CanCome(const State& state, size_t member) const {
    return (!counts_.most || state.count < *counts_.most) && CanFinish(Behind(state, member));
  }
  bool OthersCanCome(const State& state) const {
    return !others_.empty() && (!counts_.most || state.count < *counts_.most) && CanFinish(Counted(state));
  }
  bool CanGoOn(const State& state) const {
    if (OthersCanCome(state)) return true;
    for (size_t i = 0; i < awaited_.size(); ++i) {
      if (!IsAhead(state, i)) continue;
      if (CanCome(state, i)) return true;
      if (in_order_ && awaited_[i].required) return false;
    }
    return false;
  }

  /// Returns the name of the rule for one member and everything after it.
  std::string Pick(const State& state) {
    const auto [found, is_new] = picks_.try_emplace(state);
    if (!is_new) return found->second;
    const std::string name = found->second = rules_.New();
    std::vector<std::string> ways;
    if (OthersCanCome(state)) {
      for (const std::string& other : others_) ways.push_back(Row(other, Counted(state)));
    }
    for (size_t i = 0; i < awaited_.size(); ++i) {
      if (!IsAhead(state, i)) continue;
      if (CanCome(state, i)) ways.push_back(Row(awaited_[i].rule, Behind(state, i)));
      if (!in_order_) continue;
      const State next = {i + 1, state.count};
      if (others_.empty() && !awaited_[i].required && CanGoOn(next)) ways.push_back(Pick(next));
      break;
    }
    rules_.Set(name, OneOf(ways));
    return name;
  }
  std::string Row(const std::string& member, const State& behind) {
    return member + " " + (signs_.behind.empty() ? "" : signs_.behind + " ") + After(behind);
  }

  std::string After(const State& state) {
    const auto [found, is_new] = afters_.try_emplace(state);
    if (!is_new) return found->second;
    const std::string name = found->second = rules_.New();
    std::vector<std::string> ways;
    if (CanGoOn(state)) ways.push_back(signs_.between + " " + Pick(state));
    if (CanEnd(state)) ways.push_back(signs_.end);
    rules_.Set(name, OneOf(ways));
    return name;
  }

  RuleText& rules_;
  std::vector<MemberRule> awaited_;  // members that come at most once
  std::vector<std::string> others_;
  const Counts& counts_;
  const MemberSigns& signs_;
  bool in_order_;
  std::map<State, std::string> picks_, afters_;
};

}  // namespace

std::string MembersRule(RuleText& rules, const std::vector<MemberRule>& members, const std::vector<std::string>& others,
                        const Counts& counts, const MemberSigns& signs) {
  return MemberWriter(rules, members, others, counts, signs).Begin();
}

}  // namespace quire
