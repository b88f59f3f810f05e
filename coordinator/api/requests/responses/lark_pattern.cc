#include "coordinator/api/requests/responses/lark_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/api/requests/responses/lark_tokens.h"

namespace quire {

namespace {

constexpr size_t kMostPatternBytes = 64 << 10;
constexpr int kDeepest = 64;  // nesting of brackets and rules

/// Terminals of lark's own grammar common.lark, as patterns.
const std::map<std::string_view, std::string_view> kCommon = {
    {"LF", "\\n"},
    {"CR", "\\r"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+\\-]?[0-9]+"},
    {"DECIMAL", "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"},
    {"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+\\-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+\\-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+\\-]?[0-9]+)?"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[a-zA-Z_][a-zA-Z_0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"ESCAPED_STRING", R"("(?:[^"\\\n]|\\[^\n])*")"}};

std::string EscapedForPattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\f')
      out += "\\f";
    else if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

/// Replaces each dot of a Python pattern by a class of the characters that the dot matches: all characters but \n, or
/// with the flag s (`all`) all characters. Leaves dots in classes and escaped dots. Also replaces "\/" by "/".
std::string WithPythonsDots(const std::string& pattern, bool all) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      ++i;
      out += pattern[i] == '/' ? "/" : std::string{c, pattern[i]};
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (c == '.' && !in_class)
      out += all ? "[\\s\\S]" : "[^\\n]";
    else
      out += c;
  }
  return out;
}

class LarkGrammar {
 public:
  explicit LarkGrammar(std::string_view grammar) : tokens_(LarkTokens(grammar)) {
    while (at_ < tokens_.size()) ReadStatement();
    if (!rules_.contains("start")) throw Error("is no lark grammar: it has no rule called start");
  }

  std::string Pattern() { return Expanded("start", 0); }

 private:
  struct Rule {
    size_t begin;         // index in tokens_ where the rule's expansions begin
    std::string pattern;  // empty: not expanded yet
    bool open = false;    // true: the rule's expansion has begun, so a use is recursion
  };

  [[noreturn]] void FailAt(const std::string& what) const {
    throw Error(fmt::format("is no lark grammar that is known here: line {} {}",
                            tokens_[std::min(at_, tokens_.size() - 1)].line, what));
  }
  bool Is(LarkToken::Kind kind, std::string_view text = "") const {
    return at_ < tokens_.size() && tokens_[at_].kind == kind && (text.empty() || tokens_[at_].text == text);
  }
  bool Take(LarkToken::Kind kind, std::string_view text = "") {
    if (!Is(kind, text)) return false;
    ++at_;
    return true;
  }
  std::string TakeName() {
    if (!Is(LarkToken::kName)) FailAt("lacks a name");
    return tokens_[at_++].text;
  }
  void SkipLine() {
    while (!Take(LarkToken::kLineEnd)) ++at_;
  }

  void ReadStatement() {
    if (Is(LarkToken::kDirective)) return ReadDirective();
    (void)(Take(LarkToken::kSign, "?") || Take(LarkToken::kSign, "!"));
    const std::string name = TakeName();
    if (Take(LarkToken::kSign, ".") && !Take(LarkToken::kNumber)) FailAt("lacks a priority behind the dot");
    if (!Take(LarkToken::kSign, ":")) FailAt("lacks the colon of a rule");
    if (!rules_.try_emplace(name, Rule{at_, "", false}).second) FailAt("has the rule " + name.substr(0, 50) + " again");
    SkipLine();
  }

  /// Reads a directive: %import common.LF, %import common.LF -> NEW, or %import common (LF, WS).
  void ReadDirective() {
    const std::string directive = tokens_[at_].text;
    if (directive != "import") FailAt(fmt::format("has %{}; of directives %import is known", directive.substr(0, 50)));
    ++at_;
    if (TakeName() != "common") FailAt("imports from another grammar than common");
    if (Take(LarkToken::kSign, "(")) {
      do Import(TakeName(), "");
      while (Take(LarkToken::kSign, ","));
      if (!Take(LarkToken::kSign, ")")) FailAt("lacks a closing bracket");
    } else {
      if (!Take(LarkToken::kSign, ".")) FailAt("lacks what is imported");
      const std::string name = TakeName();
      Import(name, Take(LarkToken::kSign, "->") ? TakeName() : "");
    }
    if (!Take(LarkToken::kLineEnd)) FailAt("goes on behind what is imported");
  }
  void Import(const std::string& name, const std::string& as) {
    const auto common = kCommon.find(name);
    if (common == kCommon.end()) FailAt(fmt::format("imports {}, which is not known here", name.substr(0, 50)));
    rules_.insert_or_assign(as.empty() ? name : as, Rule{0, std::string(common->second), false});
  }

  std::string Expanded(const std::string& name, int depth) {
    const auto found = rules_.find(name);
    if (found == rules_.end()) FailAt(fmt::format("names {}, which is no rule", name.substr(0, 50)));
    Rule& rule = found->second;
    if (rule.open)
      throw Error(fmt::format("has the rule {}, which refers to itself: only grammars without that can be kept to here",
                              name.substr(0, 50)));
    if (!rule.pattern.empty()) return rule.pattern;
    rule.open = true;
    const size_t back = std::exchange(at_, rule.begin);
    std::string pattern = Alternatives(depth + 1);
    if (!Is(LarkToken::kLineEnd)) FailAt("goes on where a rule should end");
    at_ = back;
    rule.open = false;
    return rule.pattern = std::move(pattern);
  }

  std::string Alternatives(int depth) {
    if (depth > kDeepest) FailAt(fmt::format("is more than {} brackets and rules deep", kDeepest));
    std::string out = Row(depth);
    while (Take(LarkToken::kSign, "|")) {
      out += "|" + Row(depth);
      CheckLength(out);
    }
    CheckLength(out);
    return "(?:" + out + ")";
  }
  static void CheckLength(const std::string& pattern) {
    if (pattern.size() <= kMostPatternBytes) return;
    throw Error(fmt::format("comes to a pattern of more than {} bytes with its rules in place of their names",
                            kMostPatternBytes));
  }

  std::string Row(int depth) {
    std::string out;
    while (Is(LarkToken::kName) || Is(LarkToken::kText) || Is(LarkToken::kPattern) || Is(LarkToken::kSign, "(") ||
           Is(LarkToken::kSign, "[")) {
      out += Item(depth);
      CheckLength(out);
    }
    if (Take(LarkToken::kSign, "->")) (void)TakeName();
    return out;
  }

  std::string Item(int depth) {
    std::string atom = Atom(depth);
    for (const char* sign : {"?", "*", "+"}) {
      if (Take(LarkToken::kSign, sign)) return atom + sign;
    }
    if (!Take(LarkToken::kSign, "~")) return atom;
    if (!Is(LarkToken::kNumber)) FailAt("lacks a number behind ~");
    const std::string least = tokens_[at_++].text;
    if (!Take(LarkToken::kSign, "..")) return atom + "{" + least + "}";
    if (!Is(LarkToken::kNumber)) FailAt("lacks a number behind ..");
    return atom + "{" + least + "," + tokens_[at_++].text + "}";
  }

  std::string Atom(int depth) {
    const LarkToken token = tokens_[at_++];
    switch (token.kind) {
      case LarkToken::kName:
        return Expanded(token.text, depth);
      case LarkToken::kText:
        return Text(token);
      case LarkToken::kPattern:
        if (token.flags != "" && token.flags != "s")
          FailAt(fmt::format("has the flags {} of a pattern; only s is known here", token.flags.substr(0, 10)));
        return "(?:" + WithPythonsDots(token.text, token.flags == "s") + ")";
      default: {
        const bool may = token.text == "[";
        std::string inner = Alternatives(depth + 1);
        if (!Take(LarkToken::kSign, may ? "]" : ")")) FailAt("lacks a closing bracket");
        return may ? inner + "?" : inner;
      }
    }
  }

  std::string Text(const LarkToken& token) {
    if (token.flags != "" && token.flags != "i")
      FailAt(fmt::format("has the flags {} of a text; only i is known here", token.flags.substr(0, 10)));
    if (Take(LarkToken::kSign, "..")) {
      if (!Is(LarkToken::kText) || token.text.size() != 1 || tokens_[at_].text.size() != 1)
        FailAt("has a range whose ends are not one character each");
      return "[" + EscapedForPattern(token.text) + "-" + EscapedForPattern(tokens_[at_++].text) + "]";
    }
    if (token.flags.empty()) return "(?:" + EscapedForPattern(token.text) + ")";
    std::string out;
    for (const char c : token.text) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalpha(byte) == 0)
        out += EscapedForPattern(std::string(1, c));
      else
        out += {'[', static_cast<char>(std::tolower(byte)), static_cast<char>(std::toupper(byte)), ']'};
    }
    return "(?:" + out + ")";
  }

  std::vector<LarkToken> tokens_;
  size_t at_ = 0;
  std::map<std::string, Rule> rules_;
};

}  // namespace

std::string PatternOfLark(std::string_view grammar) { return LarkGrammar(grammar).Pattern(); }

}  // namespace quire
