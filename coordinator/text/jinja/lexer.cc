#include "coordinator/text/jinja/lexer.h"

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlankSign(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {
    if (source_.ends_with('\n')) source_.remove_suffix(1);  // Jinja drops one final newline
  }

  std::vector<Token> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag(at_);
      Text(tag);
      if (tag == std::string_view::npos) break;
      Tag(tag);
    }
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  size_t FindTag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return std::string_view::npos;
  }

  /// Emits the text up to position `tag`, trimmed as the tags on both sides require.
  void Text(size_t tag) {
    size_t end = std::min(tag, source_.size());
    size_t begin = at_;
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(begin),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    if (trim_next_) {
      while (begin < end && IsBlankSign(source_[begin])) ++begin;
    } else if (drop_newline_ && begin < end && source_[begin] == '\n') {
      ++begin;
    }
    trim_next_ = drop_newline_ = false;
    if (tag < source_.size()) {
      const char control = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      if (control == '-') {
        while (end > begin && IsBlankSign(source_[end - 1])) --end;
      } else if (source_[tag + 1] != '{' && control != '+') {
        size_t blanks = end;
        while (blanks > begin && (source_[blanks - 1] == ' ' || source_[blanks - 1] == '\t')) --blanks;
        const bool line_start = blanks == 0 || source_[blanks - 1] == '\n';
        if (line_start && blanks >= begin) end = blanks;
      }
    }
    if (end > begin) tokens_.push_back({TokenKind::kText, std::string(source_.substr(begin, end - begin)), line_});
  }

  void Tag(size_t tag) {
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    if (kind == '#') {
      const size_t end = source_.find("#}", at_);
      if (end == std::string_view::npos) Fail("template:{}: a comment does not end", line_);
      line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                           source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
      trim_next_ = source_[end - 1] == '-' && end > at_;
      drop_newline_ = true;
      at_ = end + 2;
      return;
    }
    const bool print = kind == '{';
    tokens_.push_back({print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "", line_});
    while (!CloseTag(print)) Inside();
    if (!print && IsRawBlock()) Raw();
  }

  bool IsRawBlock() const {
    const size_t n = tokens_.size();
    return tokens_[n - 2].kind == TokenKind::kName && tokens_[n - 2].text == "raw" &&
           tokens_[n - 3].kind == TokenKind::kBlockBegin;
  }

  /// Reads the text between {% raw %} and {% endraw %}.
  void Raw() {
    tokens_.resize(tokens_.size() - 3);
    drop_newline_ = false;
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      size_t at = tag + 2;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
      while (at < source_.size() && IsBlankSign(source_[at])) ++at;
      if (source_.substr(at, 6) != "endraw") continue;
      Text(tag);
      at_ = at + 6;
      if (!CloseTag(false)) Fail("template:{}: expected '%}}' behind endraw", line_);
      tokens_.pop_back();
      return;
    }
    Fail("template:{}: a raw block does not end", line_);
  }

  bool CloseTag(bool print) {
    while (at_ < source_.size() && IsBlankSign(source_[at_])) line_ += source_[at_++] == '\n';
    if (at_ >= source_.size()) Fail("template:{}: a tag does not end", line_);
    const bool sign = source_[at_] == '-' || source_[at_] == '+';
    const std::string_view close = print ? "}}" : "%}";
    if (source_.substr(at_ + sign, 2) != close || (print && open_ > 0)) return false;
    trim_next_ = source_[at_] == '-';
    drop_newline_ = !print && source_[at_] != '+';
    at_ += 2 + sign;
    open_ = 0;
    tokens_.push_back({print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "", line_});
    return true;
  }

  void Inside() {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return String(c);
    if (IsDigit(c)) return Number();
    if (IsNameStart(c)) {
      const size_t begin = at_;
      while (at_ < source_.size() && (IsNameStart(source_[at_]) || IsDigit(source_[at_]))) ++at_;
      tokens_.push_back({TokenKind::kName, std::string(source_.substr(begin, at_ - begin)), line_});
      return;
    }
    static constexpr std::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
    size_t length = 1;
    for (const std::string_view two : kTwo) {
      if (source_.substr(at_, 2) == two) length = 2;
    }
    if (length == 1 && std::string_view("+-*/%<>=()[]{}.,:|~").find(c) == std::string_view::npos) {
      Fail("template:{}: unexpected character '{}'", line_, c);
    }
    if (c == '{') ++open_;
    if (c == '}') --open_;
    tokens_.push_back({TokenKind::kOperator, std::string(source_.substr(at_, length)), line_});
    at_ += length;
  }

  void Number() {
    const size_t begin = at_;
    std::string digits = Digits();
    TokenKind kind = TokenKind::kInteger;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && IsDigit(source_[at_ + 1])) {
      kind = TokenKind::kFloat;
      digits += source_[at_++];
      digits += Digits();
    }
    size_t exponent = at_;
    if (exponent < source_.size() && (source_[exponent] == 'e' || source_[exponent] == 'E')) ++exponent;
    if (exponent > at_ && exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+'))
      ++exponent;
    if (exponent > at_ && exponent < source_.size() && IsDigit(source_[exponent])) {
      kind = TokenKind::kFloat;
      digits += source_.substr(at_, exponent - at_);
      at_ = exponent;
      digits += Digits();
    }
    if (at_ - begin > 18) Fail("template:{}: a number is too long", line_);
    tokens_.push_back({kind, digits, line_});
  }

  /// Reads digits, which may have "_" between them.
  std::string Digits() {
    std::string digits;
    while (at_ < source_.size() &&
           (IsDigit(source_[at_]) || (source_[at_] == '_' && at_ + 1 < source_.size() && IsDigit(source_[at_ + 1])))) {
      if (source_[at_] != '_') digits += source_[at_];
      ++at_;
    }
    return digits;
  }

  void String(char quote) {
    std::string text;
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] == '\n') ++line_;
      if (source_[at_] != '\\' || at_ + 1 >= source_.size()) {
        text += source_[at_];
        continue;
      }
      Escape(source_[++at_], text);
    }
    if (at_++ >= source_.size()) Fail("template:{}: a string does not end", line_);
    tokens_.push_back({TokenKind::kString, text, line_});
  }

  void Escape(char c, std::string& text) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"\n", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      if (i < kMeanings.size()) text += kMeanings[i];  // an escaped line break yields nothing
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string hex(source_.substr(at_ + 1, length));
      if (hex.size() != length || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
        Fail("template:{}: bad \\{} escape", line_, c);
      const auto character = static_cast<char32_t>(std::stoul(hex, nullptr, 16));
      if (character > 0x10ffff) Fail("template:{}: no character has the number {}", line_, hex);
      AppendUtf8(character, text);
      at_ += length;
    } else if (c >= '0' && c <= '7') {
      char32_t character = 0;
      size_t end = at_;
      for (; end < source_.size() && end < at_ + 3 && source_[end] >= '0' && source_[end] <= '7'; ++end)
        character = character * 8 + static_cast<char32_t>(source_[end] - '0');
      AppendUtf8(character, text);
      at_ = end - 1;
    } else {
      text += '\\', text += c;
    }
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  int open_ = 0;  // open braces of mapping literals in the current print tag
  bool trim_next_ = false, drop_newline_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace quire::jinja
