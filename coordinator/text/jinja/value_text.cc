// Converts values to text, as Python's str() and repr() or as JSON.
#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/characters.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

MarkedText Plain(std::string_view text) { return {text, MarkedText::kTrusted}; }
TextPointer Shared(std::string_view text) { return std::make_shared<const MarkedText>(Plain(text)); }

/// Returns Python's repr of a float: the shortest text that reads back as the same number, with a point or an exponent.
std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", d);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// Returns the escape of a character in JSON or in Python's repr; empty when the character is not escaped. `quote`: the
/// quotation mark around the text. `ascii`: also escapes characters beyond ASCII (JSON only).
std::string EscapeOf(char32_t c, bool json, char quote, bool ascii) {
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
  if (c == static_cast<unsigned char>(quote)) return std::string("\\") + quote;
  const auto code = static_cast<uint32_t>(c);
  if (json) {
    if (code >= 0x20 && (code < 0x7f || !ascii)) return "";
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    const uint32_t above = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff));
  }
  if (IsPrintable(c)) return "";
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

using Entry = std::pair<Key, Value>;

/// Returns a mapping's entries sorted by key. Throws Error for keys that cannot be compared with each other.
std::vector<const Entry*> SortedEntries(const Dict& dict, Budget& budget) {
  std::vector<std::pair<Value, const Entry*>> keyed;
  budget.MakeItems(2 * dict.entries.size());
  for (const Entry& entry : dict.entries) keyed.emplace_back(KeyValue(entry.first, budget), &entry);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const auto& a, const auto& b) { return Value::Less(a.first, b.first, budget); });
  std::vector<const Entry*> entries;
  for (const auto& [key, entry] : keyed) entries.push_back(entry);
  return entries;
}

/// Prints one value with everything inside it. Charges the budget for each printed part, because a small value can have
/// a text of exponential length. For example, a list can hold a second list twice, the second list a third list twice,
/// and so on.
class Printer {
 public:
  /// style: null prints Python's repr.
  Printer(const JsonStyle* style, Budget& budget)
      : json_(style != nullptr), style_(style != nullptr ? *style : JsonStyle()), budget_(budget) {}

  MarkedText Print(const Value& value) && {
    Write(value, 0);
    budget_.CheckText(out_.text.size());
    return std::move(out_);
  }

 private:
  void Write(const Value& value, size_t depth) {
    const Budget::Level level(budget_);
    budget_.CheckText(out_.text.size());
    if (style_.indent) budget_.MakeText(style_.indent->size() * depth);
    if (const MarkedText* text = value.AsText()) {
      WriteQuoted(*text);
    } else if (const List* list = value.AsList()) {
      const bool round = value.AsTuple() != nullptr && !json_;
      WriteAll(round ? "(" : "[", *list,
               !round              ? "]"
               : list->size() == 1 ? ",)"
                                   : ")",
               depth, [&](const Value& item) { Write(item, depth + 1); });
    } else if (const Dict* dict = value.AsDict()) {
      WriteMapping(*dict, depth);
    } else {
      out_ += json_ ? *JsonWord(value) : *value.ToText(budget_);
    }
  }

  void WriteMapping(const Dict& dict, size_t depth) {
    const auto write = [&](const Entry& entry) {
      WriteKey(entry.first);
      out_ += Plain(style_.colon);
      Write(entry.second, depth + 1);
    };
    if (style_.sort_keys) {
      WriteAll("{", SortedEntries(dict, budget_), "}", depth, [&](const auto* entry) { write(*entry); });
    } else {
      WriteAll("{", dict.entries, "}", depth, write);
    }
  }

  /// Prints a mapping's key. JSON keys must be strings, so other keys become their JSON text in quotation marks.
  void WriteKey(const Key& key) {
    const Value value = KeyValue(key, budget_);
    const bool quoted = json_ && value.AsText() == nullptr;
    if (quoted) out_ += Plain("\"");
    Write(value, 0);
    if (quoted) out_ += Plain("\"");
  }

  template <class Items, class WriteItem>
  void WriteAll(const char* open, const Items& items, const char* close, size_t depth, const WriteItem& write) {
    out_ += Plain(open);
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += Plain(style_.comma);
      first = false;
      NewLine(depth + 1);
      write(item);
    }
    if (!first) NewLine(depth);
    out_ += Plain(close);
  }

  void NewLine(size_t level) {
    if (!style_.indent) return;
    std::string line = "\n";
    for (size_t i = 0; i < level; ++i) line += *style_.indent;
    out_ += Plain(line);
  }

  /// Prints a quoted text with the escapes of JSON or Python's repr. Escapes have the marks of their characters
  /// (MarkedText::marks).
  void WriteQuoted(const MarkedText& in) {
    const std::string_view bytes = in.text;
    const bool python_doubles = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos;
    const char quote = json_ || python_doubles ? '"' : '\'';
    budget_.Walk(bytes.size());
    budget_.MakeText(bytes.size());
    out_ += Plain(std::string(1, quote));
    size_t plain = 0;  // the bytes from this offset on need no escape
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Step step = NextUtf8(bytes.substr(at));
      const std::string escape = step.valid ? EscapeOf(step.character, json_, quote, style_.ensure_ascii) : "";
      if (!escape.empty()) {
        out_ += in.Substring(plain, at - plain);
        out_ += MarkedText(escape, in.marks[at]);
        plain = at + step.length;
        budget_.CheckText(out_.text.size());
      }
      at += step.length;
    }
    out_ += in.Substring(plain);
    out_ += Plain(std::string(1, quote));
  }

  TextPointer JsonWord(const Value& value) {
    if (value.IsNone()) return Shared("null");
    if (const bool* b = value.As<bool>()) return Shared(*b ? "true" : "false");
    if (const double* d = value.As<double>(); d != nullptr && !std::isfinite(*d))
      return Shared(std::isnan(*d) ? "NaN" : *d < 0 ? "-Infinity" : "Infinity");
    if (value.IsNumber()) return value.ToText(budget_);
    Fail("tojson: a value of type {} cannot be written as JSON", value.TypeName());
  }

  bool json_;
  JsonStyle style_;
  Budget& budget_;
  MarkedText out_;
};

}  // namespace

TextPointer Value::ToText(Budget& budget) const {
  if (const auto* text = std::get_if<TextPointer>(&data_)) return *text;
  if (const auto* markup = std::get_if<std::shared_ptr<const Markup>>(&data_)) return *markup;
  budget.MakeText(0);
  if (const bool* b = As<bool>()) return Shared(*b ? "True" : "False");
  if (const int64_t* i = As<int64_t>()) return Shared(std::to_string(*i));
  if (const double* d = As<double>()) return Shared(FloatText(*d));
  if (const LongInteger* i = AsLongInteger()) return Shared(i->digits);
  if (IsNone()) return Shared("None");
  if (IsUndefined()) return Shared("");
  if (AsFunction() != nullptr) return Shared("<function>");
  return ToReprText(budget);
}

TextPointer Value::ToReprText(Budget& budget) const {
  if (AsText() == nullptr && AsList() == nullptr && AsDict() == nullptr) return ToText(budget);
  return std::make_shared<const MarkedText>(Printer(nullptr, budget).Print(*this));
}

MarkedText ToJsonText(const Value& value, const JsonStyle& style, Budget& budget) {
  return Printer(&style, budget).Print(value);
}

}  // namespace quire::jinja
