#include "coordinator/api/requests/responses/lark_tokens.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

bool IsLarkLetter(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

class LarkReader {
 public:
  explicit LarkReader(std::string_view text) : text_(text) {}

  std::vector<LarkToken> Read() {
    while (at_ < text_.size()) ReadOne();
    EndLine();
    return std::move(tokens_);
  }

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void FailHere(const std::string& what) const {
    throw Error(fmt::format("is no lark grammar: line {} {}", line_, what));
  }
  void Put(LarkToken::Kind kind, std::string text, std::string flags = "") {
    tokens_.push_back({kind, std::move(text), std::move(flags), line_});
  }
  void EndLine() {
    if (!tokens_.empty() && tokens_.back().kind != LarkToken::kLineEnd) Put(LarkToken::kLineEnd, "");
  }

  void ReadOne() {
    const char c = Peek();
    if (c == '\n') {
      if (depth_ == 0) EndLine();
      ++line_, ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#' || (c == '/' && Peek(1) == '/')) {
      while (at_ < text_.size() && Peek() != '\n') ++at_;
    } else if (c == '"') {
      ReadText();
    } else if (c == '/') {
      ReadPattern();
    } else if (c == '%') {
      ++at_;
      Put(LarkToken::kDirective, Word());
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      ReadNumber();
    } else if (IsLarkLetter(c)) {
      Put(LarkToken::kName, Word());
    } else {
      ReadSign();
    }
  }

  std::string Word() {
    const size_t begin = at_;
    while (IsLarkLetter(Peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void ReadNumber() {
    const size_t begin = at_;
    while (std::isdigit(static_cast<unsigned char>(Peek())) != 0) ++at_;
    if (at_ - begin > 6) FailHere("has a number of more than six digits");
    Put(LarkToken::kNumber, std::string(text_.substr(begin, at_ - begin)));
  }

  void ReadSign() {
    for (const std::string_view sign : {"->", ".."}) {
      if (text_.substr(at_, 2) != sign) continue;
      at_ += 2;
      return Put(LarkToken::kSign, std::string(sign));
    }
    const char c = Peek();
    if (std::string_view(":|()[]?*+~!.,").find(c) == std::string_view::npos)
      FailHere(fmt::format("has the sign {:?}, which is not known here", std::string(1, c)));
    if (c == '(' || c == '[') ++depth_;
    if ((c == ')' || c == ']') && depth_ > 0) --depth_;
    const bool goes_on = c == '|' && !tokens_.empty() && tokens_.back().kind == LarkToken::kLineEnd;
    if (goes_on) tokens_.pop_back();
    ++at_;
    Put(LarkToken::kSign, std::string(1, c));
  }

  std::string Flags() {
    const size_t begin = at_;
    while (std::islower(static_cast<unsigned char>(Peek())) != 0) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void ReadText() {
    std::string text;
    for (++at_; Peek() != '"'; ++at_) {
      if (at_ >= text_.size() || Peek() == '\n') FailHere("has a text without its end");
      if (Peek() != '\\') {
        text += Peek();
        continue;
      }
      ++at_;
      AddEscape(text);
    }
    ++at_;
    if (text.empty()) FailHere("has an empty text");
    std::string flags = Flags();
    Put(LarkToken::kText, std::move(text), std::move(flags));
  }

  void AddEscape(std::string& text) {
    const char c = Peek();
    switch (c) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      case 'f':
        text += '\f';
        break;
      case 'x': {
        int value = 0;
        const char* begin = text_.data() + at_ + 1;
        const bool there = at_ + 2 < text_.size() && std::from_chars(begin, begin + 2, value, 16).ptr == begin + 2;
        if (!there || value > 0x7F) FailHere("has an escape \\x that names no character of ASCII");
        text += static_cast<char>(value);
        at_ += 2;
        break;
      }
      default:
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
          FailHere(fmt::format("has the escape \\{}, which is not known here", c));
        text += c;
    }
  }

  void ReadPattern() {
    const size_t begin = ++at_;
    for (bool in_class = false; in_class || Peek() != '/'; ++at_) {
      if (at_ >= text_.size() || Peek() == '\n') FailHere("has a pattern without its end");
      if (Peek() == '\\' && Peek(1) != '\n')
        ++at_;
      else if (Peek() == '[')
        in_class = true;
      else if (Peek() == ']')
        in_class = false;
    }
    std::string pattern(text_.substr(begin, at_ - begin));
    ++at_;
    std::string flags = Flags();
    Put(LarkToken::kPattern, std::move(pattern), std::move(flags));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  std::vector<LarkToken> tokens_;
};

}  // namespace

std::vector<LarkToken> LarkTokens(std::string_view grammar) { return LarkReader(grammar).Read(); }

}  // namespace quire
