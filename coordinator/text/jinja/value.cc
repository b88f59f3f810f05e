#include "coordinator/text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "comm/error.h"

namespace quire::jinja {

namespace {

constexpr int kMaxDepth = 64;          // of nested values that are printed or compared
constexpr int kMaxCompared = 100'000;  // parts; a value may hold another in many places
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

/// A list that holds another one twice, which holds another one twice, ...: few values, but a long text.
void CheckLength(const MarkedText& out) {
  if (out.text.size() > kMaxMade) Fail("a value is too long to be printed");
}

MarkedText ReprAt(const Value& value, int depth) {
  if (depth > kMaxDepth) Fail("a value nests deeper than {}", kMaxDepth);
  MarkedText out;
  if (const MarkedText* text = value.AsText()) {
    const bool single = text->text.find('\'') != std::string::npos && text->text.find('"') == std::string::npos;
    return Quoted(*text, single ? '"' : '\'');
  }
  if (const List* list = value.AsList()) {
    out += Plain("[");
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += Plain(", ");
      out += ReprAt((*list)[i], depth + 1);
      CheckLength(out);
    }
    out += Plain("]");
    return out;
  }
  if (const Dict* dict = value.AsDict()) {
    out += Plain("{");
    for (size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) out += Plain(", ");
      out += Quoted(MarkedText(dict->entries[i].first, MarkedText::kFromUser), '\'');
      out += Plain(": ");
      out += ReprAt(dict->entries[i].second, depth + 1);
      CheckLength(out);
    }
    out += Plain("}");
    return out;
  }
  return value.ToText();
}

void WriteJson(const Value& value, int indent, int depth, MarkedText& out) {
  if (depth > kMaxDepth) Fail("tojson: a value nests deeper than {}", kMaxDepth);
  CheckLength(out);
  const auto new_line = [&](int level) {
    if (indent >= 0) out += Plain("\n" + std::string(static_cast<size_t>(indent * level), ' '));
  };
  const MarkedText comma = Plain(indent >= 0 ? "," : ", ");
  if (const MarkedText* text = value.AsText()) {
    out += Quoted(*text, '"');
  } else if (const List* list = value.AsList()) {
    out += Plain("[");
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += comma;
      new_line(depth + 1);
      WriteJson((*list)[i], indent, depth + 1, out);
    }
    if (!list->empty()) new_line(depth);
    out += Plain("]");
  } else if (const Dict* dict = value.AsDict()) {
    out += Plain("{");
    for (size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) out += comma;
      new_line(depth + 1);
      out += Quoted(MarkedText(dict->entries[i].first, MarkedText::kFromUser), '"');
      out += Plain(": ");
      WriteJson(dict->entries[i].second, indent, depth + 1, out);
    }
    if (!dict->entries.empty()) new_line(depth);
    out += Plain("}");
  } else if (value.IsNone()) {
    out += Plain("null");
  } else if (const bool* b = value.As<bool>()) {
    out += Plain(*b ? "true" : "false");
  } else if (value.IsNumber()) {
    out += value.ToText();
  } else {
    Fail("tojson: a value of type {} cannot be written as JSON", value.TypeName());
  }
}

}  // namespace

Value Value::FromJson(const Json& json, char mark) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(MarkedText(json.get_ref<const std::string&>(), mark));
    case Json::value_t::array: {
      List list;
      for (const Json& item : json) list.push_back(FromJson(item, mark));
      return Value(std::move(list));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) dict.entries.emplace_back(key, FromJson(item, mark));
      return Value(std::move(dict));
    }
    default:
      return Value();
  }
}

bool Value::Truthy() const {
  if (const bool* b = As<bool>()) return *b;
  if (const int64_t* i = As<int64_t>()) return *i != 0;
  if (const double* d = As<double>()) return *d != 0;
  if (const MarkedText* text = AsText()) return !text->text.empty();
  if (const List* list = AsList()) return !list->empty();
  if (const Dict* dict = AsDict()) return !dict->entries.empty();
  return AsFunction() != nullptr;
}

double Value::Number() const {
  if (const bool* b = As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = As<int64_t>()) return static_cast<double>(*i);
  if (const double* d = As<double>()) return *d;
  Fail("expected a number, got {}", TypeName());
}

int64_t Value::Integer(const char* what) const {
  if (const bool* b = As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = As<int64_t>()) return *i;
  Fail("{}: expected an integer, got {}", what, TypeName());
}

MarkedText Value::ToText() const {
  if (const MarkedText* text = AsText()) return *text;
  if (const bool* b = As<bool>()) return Plain(*b ? "True" : "False");
  if (const int64_t* i = As<int64_t>()) return Plain(std::to_string(*i));
  if (const double* d = As<double>()) return Plain(FloatText(*d));
  if (IsNone()) return Plain("None");
  if (IsUndefined()) return {};
  if (AsFunction() != nullptr) return Plain("<function>");
  return ReprAt(*this, 0);
}

const char* Value::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "none";
  if (As<bool>()) return "boolean";
  if (As<int64_t>()) return "integer";
  if (As<double>()) return "float";
  if (AsText()) return "string";
  if (AsList()) return "list";
  if (AsDict()) return "mapping";
  return "function";
}

namespace {

bool EqualAt(const Value& a, const Value& b, int depth, int& budget) {
  if (--budget < 0) Fail("values that are compared have more than {} parts", kMaxCompared);
  if (depth > kMaxDepth) Fail("values that are compared nest deeper than {}", kMaxDepth);
  if (a.IsNumber() && b.IsNumber()) return a.Number() == b.Number();
  if (a.AsText() && b.AsText()) return a.AsText()->text == b.AsText()->text;
  if (a.AsList() && b.AsList()) {
    const List &x = *a.AsList(), &y = *b.AsList();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](const Value& p, const Value& q) { return EqualAt(p, q, depth + 1, budget); });
  }
  if (a.AsDict() && b.AsDict()) {
    const auto &x = a.AsDict()->entries, &y = b.AsDict()->entries;
    if (x.size() != y.size()) return false;
    for (const auto& [key, value] : x) {
      const Value* other = b.AsDict()->Find(key);
      if (other == nullptr || !EqualAt(value, *other, depth + 1, budget)) return false;
    }
    return true;
  }
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

}  // namespace

bool operator==(const Value& a, const Value& b) {
  int budget = kMaxCompared;
  return EqualAt(a, b, 0, budget);
}

bool Value::Less(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return a.Number() < b.Number();
  if (a.AsText() && b.AsText()) return a.AsText()->text < b.AsText()->text;
  Fail("{} and {} have no order", a.TypeName(), b.TypeName());
}

MarkedText ToJsonText(const Value& value, int indent) {
  MarkedText out;
  WriteJson(value, indent, 0, out);
  return out;
}

}  // namespace quire::jinja
