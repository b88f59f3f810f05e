#include "comm/schema/pattern_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "comm/schema/schema_work.h"

namespace quire {

namespace {

constexpr int kDeepestGroup = 64;
constexpr int kMostTimes = 128;

// Blanks and line ends as ECMA 262 defines them.
const CodeRanges kSpaces = {{0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                            {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
// Code points that only other pattern engines count as blanks. \S matches neither kSpacesOfOthers nor kSpaces.
const CodeRanges kSpacesOfOthers = {{0x1c, 0x1f}, {0x85, 0x85}};
const CodeRanges kDigits = {{'0', '9'}};
const CodeRanges kWordSigns = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeRanges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Parser {
 public:
  explicit Parser(std::vector<CodePoint> pattern) : pattern_(std::move(pattern)) {}

  PatternNode Whole() {
    PatternNode node = Alternatives(0);
    if (!AtEnd()) Fail("has a ) without its (");
    return node;
  }

 private:
  bool AtEnd() const { return at_ == pattern_.size(); }
  CodePoint Peek() const { return AtEnd() ? 0 : pattern_[at_]; }
  bool Take(char c) {
    if (AtEnd() || pattern_[at_] != static_cast<CodePoint>(c)) return false;
    ++at_;
    return true;
  }
  CodePoint Next() {
    if (AtEnd()) Fail("ends too early");
    return pattern_[at_++];
  }

  PatternNode Alternatives(int depth) {
    if (depth > kDeepestGroup) Fail("is nested deeper than {}", kDeepestGroup);
    PatternNode out{PatternNode::kAny};
    do out.parts.push_back(Row(depth));
    while (Take('|'));
    return out.parts.size() == 1 ? PatternNode(std::move(out.parts.front())) : out;
  }

  PatternNode Row(int depth) {
    PatternNode out{PatternNode::kRow};
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      PatternNode part = One(depth);
      out.parts.push_back(Repeated(std::move(part)));
    }
    return out;
  }

  PatternNode One(int depth) {
    const CodePoint c = Next();
    if (c == '^') return {PatternNode::kBegin};
    if (c == '$') return {PatternNode::kEnd};
    if (c == '(') return Group(depth);
    if (c == '[') return OfClass(Class());
    if (c == '.') return OfClass(Complement(kLineEnds));
    if (c == '\\') return OfClass(Escape(false));
    if (c == '*' || c == '+' || c == '?') Fail("has nothing in front of a {}", static_cast<char>(c));
    return OfClass({{c, c}});
  }
  static PatternNode OfClass(CodeRanges ranges) { return {PatternNode::kClass, std::move(ranges)}; }

  PatternNode Group(int depth) {
    if (Take('?')) {
      if (Take('=') || Take('!')) Fail("looks ahead, which is not supported");
      if (Take('<')) {
        if (Peek() == '=' || Peek() == '!') Fail("looks behind, which is not supported");
        while (Next() != '>') {
        }
      } else if (!Take(':')) {
        Fail("has a group with flags, which is not supported");
      }
    }
    PatternNode inside = Alternatives(depth + 1);
    if (!Take(')')) Fail("has a ( without its )");
    return inside;
  }

  PatternNode Repeated(PatternNode part) {
    int least = 0, most = -1;
    if (Take('*')) {
    } else if (Take('+')) {
      least = 1;
    } else if (Take('?')) {
      most = 1;
    } else if (!Times(least, most)) {
      return part;
    }
    Take('?');  // a lazy repetition matches the same texts
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') Fail("repeats a repetition");
    PatternNode out{PatternNode::kRepeat, {}, {}, least, most};
    out.parts.push_back(std::move(part));
    return out;
  }

  /// Parses a repetition such as {2}, {2,} or {2,5}; `most` is -1 if there is no upper limit. Returns false for any
  /// other brace, which stands for itself.
  bool Times(int& least, int& most) {
    const size_t begin = at_;
    if (!Take('{')) return false;
    const auto number = [&]() -> std::optional<int> {
      std::optional<int> value;
      for (; Peek() >= '0' && Peek() <= '9'; ++at_)
        value = std::min(value.value_or(0) * 10 + static_cast<int>(Peek() - '0'), kMostTimes + 1);
      return value;
    };
    const auto first = number();
    const bool open = first && Take(',');
    const auto last = open ? number() : first;
    if (!first || !Take('}')) {
      at_ = begin;
      return false;
    }
    least = *first;
    most = last.value_or(-1);
    if (std::max(least, most) > kMostTimes) Fail("may repeat nothing more than {} times", kMostTimes);
    if (most >= 0 && most < least) Fail("repeats something less often than it has to");
    return true;
  }

  CodeRanges Class() {
    const bool others = Take('^');
    CodeRanges out;
    while (!Take(']')) {
      CodeRanges unit = Unit();
      const bool range = Peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']' && IsOne(unit);
      if (range) {
        Take('-');
        const CodeRanges last = Unit();
        if (!IsOne(last)) {
          out.push_back({'-', '-'});
          out.insert(out.end(), last.begin(), last.end());
        } else if (last[0].first < unit[0].first) {
          Fail("has a range that ends before it begins");
        } else {
          unit[0].last = last[0].first;
        }
      }
      out.insert(out.end(), unit.begin(), unit.end());
    }
    out = Normalised(std::move(out));
    return others ? Complement(out) : out;
  }
  static bool IsOne(const CodeRanges& unit) { return unit.size() == 1 && unit[0].first == unit[0].last; }
  CodeRanges Unit() {
    const CodePoint c = Next();
    if (c == '\\') return Escape(true);
    return {{c, c}};
  }

  /// Parses an escape after its backslash.
  CodeRanges Escape(bool in_class) {
    const CodePoint c = Next();
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return Complement(kDigits);
      case 'w':
        return kWordSigns;
      case 'W':
        return Complement(kWordSigns);
      case 's':
        return kSpaces;
      case 'S': {
        CodeRanges blanks = kSpaces;
        blanks.insert(blanks.end(), kSpacesOfOthers.begin(), kSpacesOfOthers.end());
        return Complement(Normalised(std::move(blanks)));
      }
      case 'x':
        return Point(Hexadecimal(2, 2));
      case 'u':
        return Point(Unicode());
      case 'c':
        return Point(Next() % 32);
      case 'b':
        if (in_class) return Point('\b');
        [[fallthrough]];
      case 'B':
        Fail("looks for the border of a word, which is not supported");
      case 'p':
      case 'P':
        Fail("asks for a property of Unicode, which is not supported");
      default:
        break;
    }
    static constexpr std::pair<char, char> kNamed[] = {{'n', '\n'}, {'r', '\r'}, {'t', '\t'},
                                                       {'f', '\f'}, {'v', '\v'}, {'0', '\0'}};
    for (const auto& [name, meant] : kNamed) {
      if (c == static_cast<CodePoint>(name)) return Point(static_cast<CodePoint>(meant));
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) Fail("has the escape \\{}, which is not supported", static_cast<char>(c));
    return Point(c);
  }
  static CodeRanges Point(CodePoint point) { return {{point, point}}; }

  CodePoint Hexadecimal(int least, int most) {
    CodePoint value = 0;
    int digits = 0;
    for (; digits < most; ++digits, ++at_) {
      const CodePoint c = Peek();
      const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<CodePoint>(digit);
    }
    if (digits < least || value > kLastCodePoint) Fail("has an escape without its digits");
    return value;
  }
  /// Parses what follows \u in an escape: four hexadecimal digits, a surrogate pair of two such escapes, or digits in
  /// braces.
  CodePoint Unicode() {
    if (Take('{')) {
      const CodePoint value = Hexadecimal(1, 6);
      if (!Take('}')) Fail("has an escape without its }}");
      return value;
    }
    const CodePoint first = Hexadecimal(4, 4);
    const size_t behind = at_;
    if (first >= 0xd800 && first < 0xdc00 && Take('\\') && Take('u')) {
      const CodePoint second = Hexadecimal(4, 4);
      if (second >= 0xdc00 && second < 0xe000) return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    }
    at_ = behind;
    return first;
  }

  std::vector<CodePoint> pattern_;
  size_t at_ = 0;
};

}  // namespace

PatternNode ParsePattern(std::string_view pattern) {
  auto points = CodePointsOf(pattern);
  if (!points) Fail("is not UTF-8");
  ChargeSchemaWork(static_cast<int64_t>(points->size()));
  return Parser(std::move(*points)).Whole();
}

}  // namespace quire
