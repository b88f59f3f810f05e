#include "comm/schema/text_pattern.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "comm/base/error.h"
#include "comm/schema/pattern_parser.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

constexpr size_t kMostPlaces = 20'000;  // states of the nondeterministic automaton

/// Thompson's nondeterministic automaton. Some edges take a code point, some take none, and some are guarded by an
/// anchor.
struct Places {
  struct Place {
    std::vector<TextAutomaton::Edge> edges;
    std::vector<int> free, at_begin, at_end;  // taken without a code point: anywhere, at the beginning, at the end
  };
  std::vector<Place> all;

  int Add() {
    ChargeSchemaWork(1);
    if (all.size() >= kMostPlaces) Fail("unfolds to too much");
    all.emplace_back();
    return static_cast<int>(all.size()) - 1;
  }
  Place& operator[](int place) { return all[static_cast<size_t>(place)]; }

  /// Adds edges from state `from` to state `to` for the texts that the node matches.
  void Build(const PatternNode& node, int from, int to) {
    switch (node.kind) {
      case PatternNode::kClass:
        ChargeSchemaWork(static_cast<int64_t>(node.ranges.size()));
        for (const CodeRange& range : node.ranges) (*this)[from].edges.push_back({range.first, range.last, to});
        return;
      case PatternNode::kBegin:
        (*this)[from].at_begin.push_back(to);
        return;
      case PatternNode::kEnd:
        (*this)[from].at_end.push_back(to);
        return;
      case PatternNode::kAny:
        for (const PatternNode& part : node.parts) Build(part, from, to);
        return;
      case PatternNode::kRow:
        for (const PatternNode& part : node.parts) {
          const int next = Add();
          Build(part, from, next);
          from = next;
        }
        (*this)[from].free.push_back(to);
        return;
      case PatternNode::kRepeat:
        return Repeat(node, from, to);
    }
  }

 private:
  void Repeat(const PatternNode& node, int from, int to) {
    for (int i = 0; i < node.least; ++i) {
      const int next = Add();
      Build(node.parts.front(), from, next);
      from = next;
    }
    if (node.most < 0) {
      const int loop = Add(), behind = Add();
      (*this)[from].free.push_back(loop);
      Build(node.parts.front(), loop, behind);
      (*this)[behind].free.push_back(loop);
      (*this)[loop].free.push_back(to);
      return;
    }
    for (int i = node.least; i < node.most; ++i) {
      const int next = Add();
      (*this)[from].free.push_back(to);
      Build(node.parts.front(), from, next);
      from = next;
    }
    (*this)[from].free.push_back(to);
  }
};

class Determiner {
 public:
  Determiner(Places& places, int begin, int end) : places_(places), end_(end) {
    order_.push_back(Closure({begin}, true, false));
    ids_[{order_[0], true}] = 0;
  }

  TextAutomaton Run() {
    TextAutomaton out;
    for (size_t i = 0; i < order_.size(); ++i) {
      const std::vector<int> places = order_[i];
      const std::vector<int> last = Closure(places, i == 0, true);
      TextAutomaton::State state{std::ranges::binary_search(last, end_), Edges(places)};
      out.states.push_back(std::move(state));
      if (order_.size() > 3 * kMostStates) Fail("unfolds to more than {} states", kMostStates);
    }
    return Minimised(out);
  }

 private:
  /// Returns the epsilon closure: all states that are reached without reading a code point, sorted.
  std::vector<int> Closure(const std::vector<int>& from, bool at_begin, bool at_end) {
    ChargeSchemaWork(static_cast<int64_t>(places_.all.size() / 64 + from.size()) + 1);
    std::vector<bool> seen(places_.all.size());
    std::vector<int> open = from, out;
    for (const int place : from) seen[static_cast<size_t>(place)] = true;
    while (!open.empty()) {
      const int place = open.back();
      open.pop_back();
      out.push_back(place);
      ChargeSchemaWork(1);
      const auto follow = [&](const std::vector<int>& edges) {
        for (const int to : edges) {
          if (seen[static_cast<size_t>(to)]) continue;
          seen[static_cast<size_t>(to)] = true;
          open.push_back(to);
        }
      };
      follow(places_[place].free);
      if (at_begin) follow(places_[place].at_begin);
      if (at_end) follow(places_[place].at_end);
    }
    std::ranges::sort(out);
    return out;
  }

  std::vector<TextAutomaton::Edge> Edges(const std::vector<int>& places) {
    std::vector<CodePoint> cuts;
    for (const int place : places) {
      for (const auto& edge : places_[place].edges) {
        cuts.push_back(edge.first);
        cuts.push_back(edge.last + 1);
      }
    }
    const auto looked_at = static_cast<int64_t>(places.size() + cuts.size() / 2);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<TextAutomaton::Edge> out;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      ChargeSchemaWork(looked_at);
      std::vector<int> targets;
      for (const int place : places) {
        for (const auto& edge : places_[place].edges) {
          if (edge.first <= cuts[i] && cuts[i] <= edge.last) targets.push_back(edge.to);
        }
      }
      if (targets.empty()) continue;
      std::ranges::sort(targets);
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
      const int to = IdOf(Closure(targets, false, false));
      if (!out.empty() && out.back().to == to && out.back().last + 1 == cuts[i]) {
        out.back().last = cuts[i + 1] - 1;
      } else {
        out.push_back({cuts[i], cuts[i + 1] - 1, to});
      }
    }
    return out;
  }

  int IdOf(std::vector<int> places) {
    const auto [found, is_new] = ids_.try_emplace({places, false}, static_cast<int>(order_.size()));
    if (is_new) order_.push_back(std::move(places));
    return found->second;
  }

  Places& places_;
  int end_;
  std::map<std::pair<std::vector<int>, bool>, int> ids_;  // bool: at the text's beginning, where ^ holds
  std::vector<std::vector<int>> order_;
};

}  // namespace

TextAutomaton TextsWith(std::string_view pattern) {
  const PatternNode node = ParsePattern(pattern);
  Places places;
  const int begin = places.Add(), first = places.Add(), last = places.Add(), end = places.Add();
  // The automaton reads any text, then the pattern, then any text.
  places[begin].edges.push_back({0, kLastCodePoint, begin});
  places[begin].free.push_back(first);
  places.Build(node, first, last);
  places[last].free.push_back(end);
  places[end].edges.push_back({0, kLastCodePoint, end});
  return Determiner(places, begin, end).Run();
}

std::string WithoutDots(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out += c;
      out += pattern[++i];
    } else if (c == '.' && !in_class) {
      out += R"([^\n\r\u2028\u2029])";
    } else {
      in_class = in_class ? c != ']' : c == '[';
      out += c;
    }
  }
  return out;
}

}  // namespace quire
