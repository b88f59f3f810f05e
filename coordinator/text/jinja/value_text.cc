// Values as text: as Python prints them, and as JSON.
#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

namespace {

MarkedText Plain(std::string_view text) { return {text, MarkedText::kTrusted}; }
TextPointer Shared(std::string_view text) { return std::make_shared<const MarkedText>(Plain(text)); }

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

/// Writes one value and what it holds. A list that holds another one twice, which holds another one twice, and so on,
/// prints without end: every part is charged.
class Printer {
 public:
  /// indent: -1 for one line.
  Printer(bool json, int indent, Budget& budget)
      : json_(json), indent_(indent), comma_(indent < 0 ? ", " : ","), budget_(budget) {}

  MarkedText Print(const Value& value) && {
    Write(value, 0);
    budget_.CheckText(out_.text.size());
    return std::move(out_);
  }

 private:
  void Write(const Value& value, int depth) {
    const Budget::Level level(budget_);
    budget_.CheckText(out_.text.size());
    budget_.MakeText(static_cast<size_t>(std::max(0, indent_) * depth));
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
      out_ += json_ ? *JsonWord(value) : *value.ToText(budget_);
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
    if (indent_ < 0) return;
    std::string line(1 + static_cast<size_t>(indent_ * level), ' ');
    line[0] = '\n';
    out_ += Plain(line);
  }

  /// Text in quotes with the escapes of JSON or, nearly the same, of Python's repr. Marks follow their characters.
  void WriteQuoted(const MarkedText& in) {
    const bool has_single = in.text.find('\'') != std::string::npos;
    const bool python_doubles = has_single && in.text.find('"') == std::string::npos;
    const char quote = json_ || python_doubles ? '"' : '\'';
    budget_.Walk(in.text.size());
    budget_.MakeText(in.text.size());
    out_ += Plain(std::string(1, quote));
    size_t plain = 0;  // characters from here stand for themselves
    for (size_t i = 0; i < in.text.size(); ++i) {
      const std::string escape = EscapeOf(in.text[i], quote);
      if (escape.empty()) continue;
      out_ += in.Substring(plain, i - plain);
      out_ += MarkedText(escape, in.marks[i]);
      plain = i + 1;
      budget_.CheckText(out_.text.size());
    }
    out_ += in.Substring(plain);
    out_ += Plain(std::string(1, quote));
  }

  TextPointer JsonWord(const Value& value) {
    if (value.IsNone()) return Shared("null");
    if (const bool* b = value.As<bool>()) return Shared(*b ? "true" : "false");
    if (value.IsNumber()) return value.ToText(budget_);
    Fail("tojson: a value of type {} cannot be written as JSON", value.TypeName());
  }

  bool json_;
  int indent_;
  std::string comma_;
  Budget& budget_;
  MarkedText out_;
};

}  // namespace

TextPointer Value::ToText(Budget& budget) const {
  if (const auto* text = std::get_if<TextPointer>(&data_)) return *text;
  budget.MakeText(0);
  if (const bool* b = As<bool>()) return Shared(*b ? "True" : "False");
  if (const int64_t* i = As<int64_t>()) return Shared(std::to_string(*i));
  if (const double* d = As<double>()) return Shared(FloatText(*d));
  if (IsNone()) return Shared("None");
  if (IsUndefined()) return Shared("");
  if (AsFunction() != nullptr) return Shared("<function>");
  return std::make_shared<const MarkedText>(Printer(false, -1, budget).Print(*this));
}

MarkedText ToJsonText(const Value& value, int indent, Budget& budget) {
  return Printer(true, indent, budget).Print(value);
}

}  // namespace quire::jinja
