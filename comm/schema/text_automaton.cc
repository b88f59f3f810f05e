#include "comm/schema/text_automaton.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "comm/base/error.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

using Edge = TextAutomaton::Edge;

void AddEdge(std::vector<Edge>& edges, CodePoint first, CodePoint last, int to) {
  if (!edges.empty() && edges.back().to == to && edges.back().last + 1 == first) {
    edges.back().last = last;
  } else {
    edges.push_back({first, last, to});
  }
}

/// Returns the same automaton with an edge for every code point. Missing edges lead to a new state that accepts
/// nothing.
TextAutomaton Complete(TextAutomaton automaton) {
  const auto sink = static_cast<int>(automaton.states.size());
  automaton.states.push_back({false, {{0, kLastCodePoint, sink}}});
  for (TextAutomaton::State& state : automaton.states) {
    std::vector<Edge> edges;
    CodePoint next = 0;
    for (const Edge& edge : state.edges) {
      if (edge.first > next) AddEdge(edges, next, edge.first - 1, sink);
      AddEdge(edges, edge.first, edge.last, edge.to);
      next = edge.last + 1;
    }
    if (next <= kLastCodePoint) AddEdge(edges, next, kLastCodePoint, sink);
    state.edges = std::move(edges);
  }
  return automaton;
}

/// Returns, for each state, the length of the shortest text that leads to a state with this value of `accepts`; -1 when
/// there is none.
std::vector<int> Distances(const TextAutomaton& automaton, bool accepts) {
  std::vector<std::vector<int>> from(automaton.states.size());
  std::vector<int> distances(automaton.states.size(), -1), order;
  for (size_t i = 0; i < automaton.states.size(); ++i) {
    for (const Edge& edge : automaton.states[i].edges)
      from[static_cast<size_t>(edge.to)].push_back(static_cast<int>(i));
    if (automaton.states[i].accepts != accepts) continue;
    distances[i] = 0;
    order.push_back(static_cast<int>(i));
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const int before : from[static_cast<size_t>(order[next])]) {
      int& distance = distances[static_cast<size_t>(before)];
      if (distance >= 0) continue;
      distance = distances[static_cast<size_t>(order[next])] + 1;
      order.push_back(before);
    }
  }
  return distances;
}

/// Removes the states that state 0 does not lead to, and those that lead to no accepting state. Keeps state 0.
TextAutomaton Trimmed(const TextAutomaton& automaton) {
  const std::vector<int> to_end = Distances(automaton, true);
  std::vector<int> place(automaton.states.size(), -1), order = {0};
  place[0] = 0;
  TextAutomaton out;
  for (size_t i = 0; i < order.size(); ++i) {
    const TextAutomaton::State& state = automaton.states[static_cast<size_t>(order[i])];
    TextAutomaton::State kept{state.accepts, {}};
    for (const Edge& edge : state.edges) {
      if (to_end[static_cast<size_t>(edge.to)] < 0) continue;
      int& to = place[static_cast<size_t>(edge.to)];
      if (to < 0) {
        to = static_cast<int>(order.size());
        order.push_back(edge.to);
      }
      AddEdge(kept.edges, edge.first, edge.last, to);
    }
    out.states.push_back(std::move(kept));
  }
  return out;
}

const Edge* EdgeFor(const TextAutomaton::State& state, CodePoint point) {
  const auto found = std::ranges::find_if(state.edges, [&](const Edge& edge) { return point <= edge.last; });
  return found == state.edges.end() || point < found->first ? nullptr : &*found;
}

}  // namespace

TextAutomaton TextAutomaton::Any() { return {{{true, {{0, kLastCodePoint, 0}}}}}; }

TextAutomaton TextAutomaton::OfLength(size_t least, std::optional<size_t> most) {
  const size_t last = most.value_or(least);
  if (last >= kMostStates) Fail("counts more than {} characters", kMostStates - 1);
  TextAutomaton out;
  for (size_t length = 0; length <= last; ++length) {
    State state{length >= least, {}};
    if (length < last) state.edges = {{0, kLastCodePoint, static_cast<int>(length) + 1}};
    if (length == last && !most) state.edges = {{0, kLastCodePoint, static_cast<int>(length)}};
    out.states.push_back(std::move(state));
  }
  return out;
}

TextAutomaton TextAutomaton::Of(const std::vector<std::string>& texts) {
  std::vector<std::map<CodePoint, int>> trie(1);
  std::vector<bool> ends(1);
  for (const std::string& text : texts) {
    const auto points = CodePointsOf(text);
    if (!points) continue;
    size_t at = 0;
    for (const CodePoint point : *points) {
      const auto [next, is_new] = trie[at].try_emplace(point, static_cast<int>(trie.size()));
      at = static_cast<size_t>(next->second);
      if (!is_new) continue;
      trie.emplace_back();
      ends.push_back(false);
      if (trie.size() > 10 * kMostStates) Fail("has texts that are too long together");
    }
    ends[at] = true;
  }
  TextAutomaton out;
  for (size_t i = 0; i < trie.size(); ++i) {
    out.states.push_back({ends[i], {}});
    for (const auto& [point, to] : trie[i]) AddEdge(out.states.back().edges, point, point, to);
  }
  return out;
}

TextAutomaton TextAutomaton::With(std::string_view inside) {
  const std::vector<CodePoint> points = CodePointsOf(inside).value_or(std::vector<CodePoint>());
  const size_t length = points.size();
  // Returns the length of the longest beginning of `inside` that is an end of this text: the first `matched` code
  // points of `inside`, then `point`.
  const auto next = [&](size_t matched, CodePoint point) {
    for (size_t kept = std::min(matched + 1, length);; --kept) {
      if (kept == 0) return size_t{0};
      const bool same =
          points[kept - 1] == point && std::equal(points.begin(), points.begin() + static_cast<ptrdiff_t>(kept) - 1,
                                                  points.begin() + static_cast<ptrdiff_t>(matched + 1 - kept));
      if (same) return kept;
    }
  };
  CodeRanges known;
  for (const CodePoint point : points) known.push_back({point, point});
  TextAutomaton out;
  for (size_t matched = 0; matched < length; ++matched) {
    std::vector<Edge> edges;
    for (const CodeRange& other : Complement(Normalised(known))) edges.push_back({other.first, other.last, 0});
    for (const CodeRange& range : Normalised(known)) {
      for (CodePoint point = range.first; point <= range.last; ++point)
        edges.push_back({point, point, static_cast<int>(next(matched, point))});
    }
    std::ranges::sort(edges, {}, &Edge::first);
    out.states.push_back({false, std::move(edges)});
  }
  out.states.push_back({true, {{0, kLastCodePoint, static_cast<int>(length)}}});
  return out;
}

TextAutomaton TextAutomaton::NotAtEnds(const CodeRanges& blanks) {
  // State 0: nothing read; state 1: the last code point is no blank; state 2: the last one is a blank, and no blank
  // begins the text.
  const CodeRanges others = Complement(Normalised(blanks));
  TextAutomaton out;
  for (int state = 0; state < 3; ++state) {
    std::vector<Edge> edges;
    for (const CodeRange& range : others) edges.push_back({range.first, range.last, 1});
    if (state > 0) {
      for (const CodeRange& range : blanks) edges.push_back({range.first, range.last, 2});
    }
    std::ranges::sort(edges, {}, &Edge::first);
    out.states.push_back({state < 2, std::move(edges)});
  }
  return out;
}

bool TextAutomaton::Accepts(std::string_view text) const {
  const auto points = CodePointsOf(text);
  if (!points) return false;
  size_t at = 0;
  for (const CodePoint point : *points) {
    const Edge* edge = EdgeFor(states[at], point);
    if (edge == nullptr) return false;
    at = static_cast<size_t>(edge->to);
  }
  return states[at].accepts;
}

bool TextAutomaton::IsEmpty() const { return Distances(*this, true)[0] < 0; }

TextAutomaton Intersection(const TextAutomaton& a, const TextAutomaton& b) {
  std::map<std::pair<int, int>, int> places = {{{0, 0}, 0}};
  std::vector<std::pair<int, int>> order = {{0, 0}};
  TextAutomaton out;
  for (size_t i = 0; i < order.size(); ++i) {
    const TextAutomaton::State &of_a = a.states[static_cast<size_t>(order[i].first)],
                               &of_b = b.states[static_cast<size_t>(order[i].second)];
    TextAutomaton::State state{of_a.accepts && of_b.accepts, {}};
    auto left = of_a.edges.begin(), right = of_b.edges.begin();
    ChargeSchemaWork(static_cast<int64_t>(of_a.edges.size() + of_b.edges.size()) + 1);
    while (left != of_a.edges.end() && right != of_b.edges.end()) {
      const CodePoint first = std::max(left->first, right->first), last = std::min(left->last, right->last);
      if (first <= last) {
        const std::pair<int, int> to = {left->to, right->to};
        const auto [place, is_new] = places.try_emplace(to, static_cast<int>(order.size()));
        if (is_new) order.push_back(to);
        AddEdge(state.edges, first, last, place->second);
      }
      if (left->last < right->last) {
        ++left;
      } else {
        ++right;
      }
    }
    out.states.push_back(std::move(state));
    if (order.size() > 4 * kMostStates) Fail("unfolds to more than {} states", kMostStates);
  }
  return Minimised(out);
}

TextAutomaton Not(const TextAutomaton& automaton) {
  TextAutomaton out = Complete(automaton);
  for (TextAutomaton::State& state : out.states) state.accepts = !state.accepts;
  return Minimised(out);
}

TextAutomaton Minimised(const TextAutomaton& automaton) {
  const TextAutomaton whole = Complete(Trimmed(automaton));
  const size_t count = whole.states.size();
  // States are equal if they accept the same continuations. Equal states have equal distances to accepted and to
  // refused texts, so states are first grouped by these distances. Groups are then split until all states of a group
  // lead to the same groups.
  const std::vector<int> to_end = Distances(whole, true), to_other = Distances(whole, false);
  std::map<std::pair<int, int>, int> first_groups;
  std::vector<int> group(count);
  for (size_t i = 0; i < count; ++i)
    group[i] = first_groups.try_emplace({to_end[i], to_other[i]}, static_cast<int>(first_groups.size())).first->second;
  for (size_t groups = 0;;) {
    std::map<std::pair<int, std::vector<Edge>>, int, decltype([](const auto& a, const auto& b) {
               const auto key = [](const Edge& e) { return std::tuple(e.first, e.last, e.to); };
               if (a.first != b.first) return a.first < b.first;
               return std::ranges::lexicographical_compare(a.second, b.second, {}, key, key);
             })>
        signatures;
    std::vector<int> next(count);
    for (size_t i = 0; i < count; ++i) {
      ChargeSchemaWork(static_cast<int64_t>(whole.states[i].edges.size()) + 1);
      std::vector<Edge> edges;
      for (const Edge& edge : whole.states[i].edges)
        AddEdge(edges, edge.first, edge.last, group[static_cast<size_t>(edge.to)]);
      next[i] = signatures.try_emplace({group[i], std::move(edges)}, static_cast<int>(signatures.size())).first->second;
    }
    group = std::move(next);
    if (signatures.size() == groups) break;
    groups = signatures.size();
  }
  TextAutomaton merged;
  merged.states.resize(static_cast<size_t>(*std::ranges::max_element(group)) + 1);
  for (size_t i = count; i-- > 0;) {
    TextAutomaton::State& state = merged.states[static_cast<size_t>(group[i])];
    state = {whole.states[i].accepts, {}};
    for (const Edge& edge : whole.states[i].edges)
      AddEdge(state.edges, edge.first, edge.last, group[static_cast<size_t>(edge.to)]);
  }
  // State 0 was grouped first, so its group is 0.
  TextAutomaton out = Trimmed(merged);
  if (out.states.size() > kMostStates) Fail("unfolds to more than {} states", kMostStates);
  return out;
}

}  // namespace quire
