#include "coordinator/text/answers/python_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "comm/base/json.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/python_number.h"

namespace quire {

namespace {

constexpr int kDeepestValue = 32;

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0; }

/// Appends the character as UTF-8 by decoding its JSON escape.
void AppendCharacter(uint32_t code, std::string& out) {
  std::string spelled = fmt::format("\\u{:04x}", code);
  if (code > 0xffff)
    spelled = fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
  out += Json::parse("\"" + spelled + "\"").get_ref<const std::string&>();
}

/// Converts Python literals to JSON.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::optional<std::string> Arguments() {
    std::string members;
    for (SkipSpace(); at_ < text_.size(); SkipSpace()) {
      std::string member;
      if (!Argument(member)) return std::nullopt;
      members += (members.empty() || member.empty() ? "" : ", ") + member;
      SkipSpace();
      if (at_ < text_.size() && !Take(',')) return std::nullopt;
    }
    return "{" + members + "}";
  }

 private:
  bool Argument(std::string& out) {
    if (text_.substr(at_).starts_with("**")) {
      at_ += 2;
      if (!Value(out, 0) || out[0] != '{') return false;
      out = out.substr(1, out.size() - 2);
      return true;
    }
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    out = JsonString(text_.substr(begin, at_ - begin)) + ": ";
    const bool is_named = at_ > begin;
    SkipSpace();
    return is_named && Take('=') && Value(out, 0);
  }

  void SkipSpace() {
    while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool IsQuote(size_t at) const { return at < text_.size() && (text_[at] == '"' || text_[at] == '\''); }

  /// Returns the letters before a string's quotation mark, such as r or b; nullopt when no string begins at the current
  /// position.
  std::optional<std::string_view> Prefix() const {
    size_t end = at_;
    while (end < text_.size() && end < at_ + 2 && std::isalpha(static_cast<unsigned char>(text_[end])) != 0) ++end;
    return IsQuote(end) ? std::optional(text_.substr(at_, end - at_)) : std::nullopt;
  }

  bool Value(std::string& out, int depth) {
    SkipSpace();
    if (at_ == text_.size() || depth == kDeepestValue) return false;
    const char c = text_[at_];
    if (Prefix()) return Strings(out);
    if (c == '[') return Items(out, ']', depth);
    if (c == '(') return Items(out, ')', depth);
    if (c == '{') return Braces(out, depth);
    return Word(out);
  }

  /// Reads a list or tuple. Round brackets around a single value without a comma only group the value.
  bool Items(std::string& out, char close, int depth) {
    ++at_;
    std::string items;
    size_t count = 0;
    bool comma = close == ']';
    for (SkipSpace(); !Take(close); SkipSpace()) {
      if (count++ > 0) items += ", ";
      if (!Value(items, depth + 1)) return false;
      SkipSpace();
      if (Take(close)) break;
      if (!Take(',')) return false;
      comma = true;
    }
    out += comma || count != 1 ? "[" + items + "]" : items;
    return true;
  }

  /// Reads a mapping, or a set, which becomes a JSON list.
  bool Braces(std::string& out, int depth) {
    ++at_;
    std::string items;
    bool is_set = false;
    for (SkipSpace(); !Take('}'); SkipSpace()) {
      std::string item;
      if (!Value(item, depth + 1)) return false;
      SkipSpace();
      if (items.empty()) is_set = at_ < text_.size() && text_[at_] != ':';
      if (!is_set && !(Take(':') && KeyOf(item) && Value(item, depth + 1))) return false;
      items += (items.empty() ? "" : ", ") + item;
      SkipSpace();
      if (Take('}')) break;
      if (!Take(',')) return false;
    }
    out += (is_set ? "[" : "{") + items + (is_set ? "]" : "}");
    return true;
  }

  /// Turns an item into a JSON key. A key that is no string becomes its JSON text, in quotation marks.
  static bool KeyOf(std::string& item) {
    if (item[0] == '[' || item[0] == '{') return false;
    if (item[0] != '"') item = "\"" + item + "\"";
    item += ": ";
    return true;
  }

  /// Reads one string literal, or several adjacent ones, which Python joins.
  bool Strings(std::string& out) {
    std::string value;
    for (auto prefix = Prefix(); prefix; SkipSpace(), prefix = Prefix()) {
      std::string letters(*prefix);
      std::ranges::transform(letters, letters.begin(), [](unsigned char c) { return std::tolower(c); });
      if (letters.find_first_not_of("rbuf") != std::string::npos) return false;
      const size_t begin = value.size();
      at_ += letters.size();
      if (!String(letters.find('r') != std::string::npos, value)) return false;
      if (letters.find('f') != std::string::npos && value.find_first_of("{}", begin) != std::string::npos) return false;
    }
    out += JsonString(value);
    return true;
  }

  bool String(bool raw, std::string& value) {
    std::string quote(1, text_[at_]);
    const std::string triple(3, text_[at_]);
    if (text_.substr(at_).starts_with(triple)) quote = triple;
    for (at_ += quote.size(); !text_.substr(at_).starts_with(quote);) {
      if (at_ == text_.size()) return false;
      const char c = text_[at_++];
      if (c != '\\') {
        value += c;
      } else if (at_ == text_.size()) {
        return false;
      } else if (raw) {
        value += c;
        value += text_[at_++];
      } else {
        Escape(value);
      }
    }
    at_ += quote.size();
    return true;
  }

  /// Reads the character after a backslash. Also accepts JSON's escapes, which calls under a schema use.
  void Escape(std::string& value) {
    static constexpr std::string_view kEscapes = "ntrbfav/\\'\"", kMeant = "\n\t\r\b\f\a\v/\\'\"";
    const char c = text_[at_];
    if (c == '\n') {  // line continuation
      ++at_;
      return;
    }
    if (c >= '0' && c <= '7') return Octal(value);
    ++at_;
    if (c == 'u' && Surrogates(value)) return;
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0 && Character(digits, value)) return;
    const size_t which = kEscapes.find(c);
    if (which == std::string_view::npos) value += '\\';  // Python does not change unknown escapes
    value += which == std::string_view::npos ? c : kMeant[which];
  }

  void Octal(std::string& value) {
    size_t length = 1;
    while (length < 3 && at_ + length < text_.size() && text_[at_ + length] >= '0' && text_[at_ + length] <= '7')
      ++length;
    uint32_t code = 0;
    std::from_chars(text_.data() + at_, text_.data() + at_ + length, code, 8);
    AppendCharacter(code, value);
    at_ += length;
  }

  /// Reads a character written as `digits` hexadecimal digits. Returns false when digits are missing or give no valid
  /// character.
  bool Character(size_t digits, std::string& value) {
    const std::string_view text = text_.substr(at_, digits);
    uint32_t code = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() < digits || read.ptr != text.data() + digits || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000))
      return false;
    AppendCharacter(code, value);
    at_ += digits;
    return true;
  }

  /// Reads a surrogate pair, which is JSON's spelling of one character.
  bool Surrogates(std::string& value) {
    const Json pair = Json::parse("\"\\u" + std::string(text_.substr(at_, 10)) + "\"", nullptr, false);
    if (!pair.is_string() || pair.get_ref<const std::string&>().size() != 4) return false;
    const auto& bytes = pair.get_ref<const std::string&>();
    if ((bytes[0] & 0xf8) != 0xf0) return false;  // more than one character
    value += bytes;
    at_ += 10;
    return true;
  }

  bool Word(std::string& out) {
    bool negative = false, has_sign = false;
    for (; at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+'); SkipSpace()) {
      negative ^= text_[at_++] == '-';
      has_sign = true;
    }
    const size_t begin = at_;
    const auto ends = [&](char c) {
      return IsJsonSpace(c) || std::string_view(",)]}:").find(c) != std::string_view::npos;
    };
    while (at_ < text_.size() && !ends(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (const auto number = PythonNumber(word)) {
      out += (negative ? "-" : "") + *number;
      return true;
    }
    const bool is_true = word == "True" || word == "true", is_false = word == "False" || word == "false";
    if (has_sign || !(is_true || is_false || word == "None" || word == "null")) return false;
    out += is_true ? "true" : is_false ? "false" : "null";
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> ReadPythonArguments(std::string_view text) { return LiteralReader(text).Arguments(); }

bool PythonBrackets::Find(std::string_view text, bool at_end) {
  while (at_ < text.size() && depth_ > 0) {
    const char c = text[at_];
    size_t length = 1;
    if (escaped_) {
      escaped_ = false;
    } else if (quote_ != 0 && c == '\\') {
      escaped_ = true;
    } else if (c == quote_ || (quote_ == 0 && (c == '"' || c == '\''))) {
      const bool opens = quote_ == 0;
      if ((opens || triple_) && !at_end && MayBeTriple(text)) return false;
      const bool is_triple = IsTriple(text);
      if (opens) triple_ = is_triple;
      if (triple_ && is_triple) length = 3;
      if (opens || !triple_ || is_triple) quote_ = opens ? c : '\0';
    } else if (quote_ == 0 && std::string_view("([{").find(c) != std::string_view::npos) {
      ++depth_;
    } else if (quote_ == 0 && std::string_view(")]}").find(c) != std::string_view::npos) {
      --depth_;
    }
    at_ += length;
  }
  return depth_ == 0;
}

}  // namespace quire
