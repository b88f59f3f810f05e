#include "comm/schema/rule_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int kMostRules = 20'000;
constexpr size_t kMostBytes = 2u << 20;

constexpr const char* kHex = "[0-9A-Fa-f]";
const std::pair<CodePoint, char> kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
                                                    {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};

/// Returns the name of a rule for any JSON escape of one character, after the backslash. The escape of a code point
/// beyond U+FFFF is a whole surrogate pair.
std::string AnyEscape(RuleText& rules) {
  const std::string hex2 = fmt::format("{0} {0}", kHex), hex3 = fmt::format("{0} {0} {0}", kHex);
  return rules.Add(
      fmt::format("[\"\\\\/bfnrt] | \"u\" [0-9A-CEFa-cef] {1} | \"u\" [Dd] [0-7] {0} | \"u\" [Dd] [89ABab] {0} "
                  "\"\\\\u\" [Dd] [C-Fc-f] {0}",
                  hex2, hex3));
}

CodeRanges Both(const CodeRanges& a, const CodeRanges& b) {
  CodeRanges others = Complement(a);
  const CodeRanges more = Complement(b);
  others.insert(others.end(), more.begin(), more.end());
  return Complement(Normalised(std::move(others)));
}

bool Has(const CodeRanges& ranges, CodePoint point) {
  return std::ranges::any_of(ranges,
                             [&](const CodeRange& range) { return range.first <= point && point <= range.last; });
}

bool IsAll(const CodeRanges& ranges) { return ranges == CodeRanges{{0, kLastCodePoint}}; }

/// Spells the code points of an automaton's edge as alternatives, each followed by `next`.
class EdgeSpeller {
 public:
  EdgeSpeller(RuleText& rules, Spelling spelling) : rules_(rules), spelling_(spelling) {}

  std::vector<std::string> Spell(const CodeRanges& ranges, const std::string& next) {
    const std::string behind = " " + next;
    std::vector<std::string> out;
    CodeRanges raw = Both(ranges, Complement({{0xd800, 0xdfff}}));
    if (spelling_ != Spelling::kRaw) {
      CodeRanges escaped = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
      if (spelling_ == Spelling::kJsonInTag) escaped.push_back({'<', '<'});
      raw = Both(raw, Complement(Normalised(escaped)));
    }
    if (!raw.empty()) out.push_back(ClassOf(raw) + behind);
    if (spelling_ == Spelling::kRaw) return out;
    if (IsAll(ranges)) {
      out.push_back("\"\\\\\" " + AnyEscape(rules_) + behind);
      return out;
    }
    CodeRanges letters;
    for (const auto& [point, letter] : kShortEscapes) {
      if (Has(ranges, point)) letters.push_back({static_cast<CodePoint>(letter), static_cast<CodePoint>(letter)});
    }
    if (!letters.empty()) out.push_back("\"\\\\\" " + ClassOf(Normalised(letters)) + behind);
    AddControls(ranges, behind, out);
    if (spelling_ == Spelling::kJsonInTag && Has(ranges, '<')) out.push_back("\"\\\\u003\" [Cc]" + behind);
    return out;
  }

 private:
  /// Adds the control characters that have no short escape.
  static void AddControls(const CodeRanges& ranges, const std::string& behind, std::vector<std::string>& out) {
    for (const char* row : {"0", "1"}) {
      CodeRanges digits;
      for (CodePoint low = 0; low < 16; ++low) {
        const CodePoint point = (*row == '1' ? 16 : 0) + low;
        const bool named = std::ranges::any_of(kShortEscapes, [&](const auto& entry) { return entry.first == point; });
        if (named || !Has(ranges, point)) continue;
        const CodePoint digit = low < 10 ? '0' + low : 'a' + low - 10;
        digits.push_back({digit, digit});
        if (low >= 10) digits.push_back({digit - 32, digit - 32});
      }
      if (!digits.empty())
        out.push_back(fmt::format("\"\\\\u00{}\" {}{}", row, ClassOf(Normalised(std::move(digits))), behind));
    }
  }

  RuleText& rules_;
  Spelling spelling_;
};

/// Returns the name of a rule for any text, after the opening quotation mark. The look-ahead after the text lets masks
/// decide early which tokens may cross its end.
std::string OpenTail(RuleText& rules, Spelling spelling) {
  const std::string raw = spelling == Spelling::kJsonInTag ? "[^\"\\\\<\\u0000-\\u001f]" : "[^\"\\\\\\u0000-\\u001f]";
  const std::string escape = AnyEscape(rules);
  // The body contains the rule's own name, because the rule is recursive.
  const std::string name = spelling == Spelling::kJsonInTag ? "string_in_tag" : "string";
  const std::string body =
      fmt::format("\"\\\"\" | {0} {1} | \"\\\\\" {2} {1} (= [ \\n\\r\\t]* [,}}\\]:])", raw, name, escape);
  if (rules.text().find("\n" + name + " ::=") == std::string::npos) rules.Set(name, body);
  return name;
}

/// Writes one rule for each state of an automaton.
class StateWriter {
 public:
  StateWriter(RuleText& rules, const TextAutomaton& texts, Spelling spelling)
      : rules_(rules), states_(texts.states), spelling_(spelling), names_(states_.size()), speller_(rules, spelling) {}

  std::string Write() {
    NameWhatComesBeforeItself();
    std::vector<size_t> left;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!names_[i].empty()) continue;
      left.push_back(i);
      names_[i] = rules_.New();
    }
    std::map<std::string, int> uses;
    for (const size_t i : left) {
      for (const std::string& body : Ways(i)) {
        if (body.starts_with('[')) ++uses[body];
      }
    }
    for (const size_t i : left) {
      std::vector<std::string> ways = Ways(i);
      // An alternative that several states share becomes one rule, so its masks are computed once. A loop stays in its
      // state's rule.
      for (std::string& way : ways) {
        if (way.starts_with('[') && uses[way] > 1 && !way.ends_with(" " + names_[i])) way = rules_.Add(way);
      }
      rules_.Set(names_[i], OneOf(ways));
    }
    return names_.front();
  }

 private:
  bool TakesAll(size_t state) const {
    const auto& [accepts, edges] = states_[state];
    return accepts && edges.size() == 1 && edges[0].first == 0 && edges[0].last == kLastCodePoint &&
           static_cast<size_t>(edges[0].to) == state;
  }

  /// Names the states from which no cycle of states can be reached, each after the states to which its edges lead. A
  /// state that accepts every further text gets the rule of OpenTail. Equal states of all texts of a grammar share one
  /// rule, so texts with different length limits share their common part.
  void NameWhatComesBeforeItself() {
    for (bool more = true; more;) {
      more = false;
      for (size_t i = states_.size(); i-- > 0;) {
        if (!names_[i].empty()) continue;
        const bool open = spelling_ != Spelling::kRaw && TakesAll(i);
        const bool ready = std::ranges::none_of(states_[i].edges, [&](const TextAutomaton::Edge& edge) {
          return names_[static_cast<size_t>(edge.to)].empty();
        });
        if (!open && !ready) continue;
        names_[i] = open ? OpenTail(rules_, spelling_) : rules_.Add(OneOf(Ways(i)));
        more = true;
      }
    }
  }

  /// Returns the alternatives of a state. The states that it leads to must have names.
  std::vector<std::string> Ways(size_t state) {
    std::vector<std::string> ways;
    if (states_[state].accepts) ways.emplace_back(spelling_ == Spelling::kRaw ? "\"\"" : "\"\\\"\"");
    std::map<int, CodeRanges> to;
    for (const TextAutomaton::Edge& edge : states_[state].edges) to[edge.to].push_back({edge.first, edge.last});
    for (const auto& [target, ranges] : to) {
      for (std::string& way : speller_.Spell(ranges, names_[static_cast<size_t>(target)]))
        ways.push_back(std::move(way));
    }
    return ways;
  }

  RuleText& rules_;
  const std::vector<TextAutomaton::State>& states_;
  Spelling spelling_;
  std::vector<std::string> names_;
  EdgeSpeller speller_;
};

}  // namespace

std::string RuleText::New() { return fmt::format("r{}", count_++); }

void RuleText::Set(const std::string& name, const std::string& body) {
  text_ += fmt::format("\n{} ::= {}", name, body);
  if (count_ > kMostRules || text_.size() > kMostBytes) Fail("unfolds to more than {} rules", kMostRules);
}

std::string RuleText::Add(const std::string& body) {
  const auto [found, is_new] = by_body_.try_emplace(body);
  if (is_new) {
    found->second = New();
    Set(found->second, body);
  }
  return by_body_.at(body);
}

std::string LiteralOf(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ClassOf(const CodeRanges& ranges) {
  const auto point = [](CodePoint p) {
    const bool plain = (p >= '0' && p <= '9') || (p >= 'a' && p <= 'z') || (p >= 'A' && p <= 'Z');
    return plain        ? std::string(1, static_cast<char>(p))
           : p > 0xffff ? fmt::format("\\U{:08x}", p)
                        : fmt::format("\\u{:04x}", p);
  };
  std::string out = "[";
  for (const CodeRange& range : ranges)
    out += range.first == range.last ? point(range.first) : point(range.first) + "-" + point(range.last);
  return out + "]";
}

std::string OneOf(const std::vector<std::string>& bodies) {
  if (bodies.empty()) return "[^\\u0000-\\U0010ffff]";
  std::string out;
  for (const std::string& body : bodies) out += (out.empty() ? "" : " | ") + body;
  return out;
}

std::string TextRule(RuleText& rules, const TextAutomaton& texts, Spelling spelling) {
  return StateWriter(rules, texts, spelling).Write();
}

}  // namespace quire
