// Values as text: as Python prints them, and as JSON.
#include <cmath>

#include "comm/error.h"
#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

namespace {

constexpr int kMaxDepth = 64;          // of nested values
constexpr int kMaxParts = 200'000;     // a list that holds another one twice, which holds another one twice, ...
constexpr size_t kMaxMade = 16 << 20;  // bytes

MarkedText Plain(std::string_view text) { return {text, MarkedText::kTrusted}; }

/// Python's shortest form of a float that reads back the same, always with a point or an exponent.
std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", d);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// The escape sequence of a character, or nothing when it stands for itself.
std::string EscapeOf(char c, char quote) {
  const bool json = quote == '"';
  switch (c) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return json ? "\\b" : "\\x08";
    case '\f':
      return json ? "\\f" : "\\x0c";
    default:
      break;
  }
  if (c == quote) return json ? "\\\"" : "\\'";
  if (static_cast<unsigned char>(c) < 0x20) {
    return json ? fmt::format("\\u{:04x}", static_cast<int>(c)) : fmt::format("\\x{:02x}", static_cast<int>(c));
  }
  return "";
}

/// Text in quotes with the escapes of JSON or, nearly the same, of Python's repr. Marks follow their characters.
MarkedText Quoted(const MarkedText& in, char quote) {
  MarkedText out = Plain(std::string(1, quote));
  for (size_t i = 0; i < in.text.size(); ++i) {
    const char c = in.text[i];
    std::string piece = EscapeOf(c, quote);
    if (piece.empty()) piece.push_back(c);
    out += MarkedText(piece, in.marks[i]);
  }
  out += Plain(std::string(1, quote));
  return out;
}

/// Writes one value and what it holds, within the bounds above.
class Printer {
 public:
  /// indent: -1 for one line.
  Printer(bool json, int indent) : json_(json), indent_(indent), comma_(indent < 0 ? ", " : ",") {}

  MarkedText Print(const Value& value) && {
    Write(value, 0);
    return std::move(out_);
  }

 private:
  void Write(const Value& value, int depth) {
    if (depth > kMaxDepth) Fail("a value that is printed nests deeper than {}", kMaxDepth);
    if (++parts_ > kMaxParts || out_.text.size() > kMaxMade) Fail("a value is too long to be printed");
    if (const MarkedText* text = value.AsText()) {
      WriteQuoted(*text);
    } else if (const List* list = value.AsList()) {
      WriteAll('[', *list, ']', depth, [&](const Value& item) { Write(item, depth + 1); });
    } else if (const Dict* dict = value.AsDict()) {
      WriteAll('{', dict->entries, '}', depth, [&](const auto& entry) {
        WriteQuoted(MarkedText(entry.first, MarkedText::kFromUser));
        out_ += Plain(": ");
        Write(entry.second, depth + 1);
      });
    } else {
      out_ += json_ ? JsonWord(value) : value.ToText();
    }
  }

  template <class Items, class WriteItem>
  void WriteAll(char open, const Items& items, char close, int depth, const WriteItem& write) {
    out_ += Plain(std::string(1, open));
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += Plain(comma_);
      first = false;
      NewLine(depth + 1);
      write(item);
    }
    if (!first) NewLine(depth);
    out_ += Plain(std::string(1, close));
  }

  void NewLine(int level) {
    if (indent_ >= 0) out_ += Plain("\n" + std::string(static_cast<size_t>(indent_ * level), ' '));
  }

  void WriteQuoted(const MarkedText& text) {
    const bool has_single = text.text.find('\'') != std::string::npos;
    const bool python_doubles = has_single && text.text.find('"') == std::string::npos;
    out_ += Quoted(text, json_ || python_doubles ? '"' : '\'');
  }

  static MarkedText JsonWord(const Value& value) {
    if (value.IsNone()) return Plain("null");
    if (const bool* b = value.As<bool>()) return Plain(*b ? "true" : "false");
    if (value.IsNumber()) return value.ToText();
    Fail("tojson: a value of type {} cannot be written as JSON", value.TypeName());
  }

  bool json_;
  int indent_;
  std::string comma_;
  int parts_ = 0;
  MarkedText out_;
};

}  // namespace

MarkedText Value::ToText() const {
  if (const MarkedText* text = AsText()) return *text;
  if (const bool* b = As<bool>()) return Plain(*b ? "True" : "False");
  if (const int64_t* i = As<int64_t>()) return Plain(std::to_string(*i));
  if (const double* d = As<double>()) return Plain(FloatText(*d));
  if (IsNone()) return Plain("None");
  if (IsUndefined()) return {};
  if (AsFunction() != nullptr) return Plain("<function>");
  return Printer(false, -1).Print(*this);
}

MarkedText ToJsonText(const Value& value, int indent) { return Printer(true, indent).Print(value); }

}  // namespace quire::jinja
