// Jinja's filters, the filter tojson of HF transformers and the filter from_json of llama.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/list_filters.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

constexpr size_t kMaxJsonDepth = 32, kMaxJsonNodes = 100'000;
constexpr int kMaxDigits = 15;  // decimal places for rounding

Value Length(const Value& v, Budget& budget) {
  if (const MarkedText* text = v.AsText()) return Value(CharacterIndex(text->text, budget).size());
  if (const Dict* dict = v.AsDict()) return Value(static_cast<int64_t>(dict->entries.size()));
  if (const List* list = v.AsList()) return Value(static_cast<int64_t>(list->size()));
  return Value(static_cast<int64_t>(Items(v, budget).size()));
}

/// Reads a text that consists of one number and blanks around it, as Python's int() and float() do. Returns nullopt for
/// other texts. Throws Error when Number cannot hold the number.
template <class Number>
std::optional<Number> NumberIn(const MarkedText& text, Budget& budget) {
  const MarkedText stripped = Strip(text, Side::kBoth, nullptr, budget);
  std::string_view digits = stripped.text;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc::result_out_of_range) Fail("'{}' is out of range", digits.substr(0, 40));
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// Converts floats, booleans, and texts of integers or floats, to integers. Returns the argument `default` (0 if
/// missing) for other values, for infinities and for NaN. Throws Error for undefined values, and when the result does
/// not fit into int64_t.
Value ToInteger(const Value& v, const Arguments& a, Budget& budget) {
  if (v.As<int64_t>() || v.AsLongInteger()) return v;
  if (v.IsUndefined()) Fail("'{}' is undefined", v.As<Undefined>()->name);
  if (a.Integer(1, "base", 10) != 10) Fail("int: only base 10 is supported");
  double number = NAN;
  if (v.AsText() != nullptr) {
    if (const auto whole = NumberIn<int64_t>(*v.AsText(), budget)) return Value(*whole);
    number = NumberIn<double>(*v.AsText(), budget).value_or(NAN);
  } else if (v.IsNumber()) {
    number = v.Number();
  }
  const Value* otherwise = a.Get(0, "default");
  if (!std::isfinite(number)) return otherwise != nullptr ? *otherwise : Value(int64_t{0});
  if (!(std::abs(number) < 0x1p63)) Fail("int: {} is out of range", number);
  return Value(static_cast<int64_t>(number));
}

Value ToFloat(const Value& v, const Arguments& a, Budget& budget) {
  if (v.IsNumber()) return Value(v.Number());
  if (v.IsUndefined()) Fail("'{}' is undefined", v.As<Undefined>()->name);
  if (v.AsText() != nullptr) {
    if (const auto number = NumberIn<double>(*v.AsText(), budget)) return Value(*number);
  }
  const Value* otherwise = a.Get(0, "default");
  return otherwise != nullptr ? *otherwise : Value(0.0);
}

Value Rounded(const Value& v, const Arguments& a, Budget&) {
  const int64_t digits = a.Integer(0, "precision", 0);
  const std::string* method = a.Text(1, "method");
  if (digits < 0 || digits > kMaxDigits) Fail("round: 0 to {} digits", kMaxDigits);
  if (method == nullptr || *method == "common") {
    // Formatting rounds the exact binary value, half to even, like Python's round().
    return v.As<double>() ? Value(std::stod(fmt::format("{:.{}f}", v.Number(), digits))) : Value(v.Integer("round"));
  }
  const double scale = std::pow(10, static_cast<double>(digits)), scaled = v.Number() * scale;
  if (*method == "ceil") return Value(std::ceil(scaled) / scale);
  if (*method == "floor") return Value(std::floor(scaled) / scale);
  Fail("round: a method is \"common\", \"ceil\" or \"floor\"");
}

Value Absolute(const Value& v, Budget& budget) {
  if (v.As<double>()) return Value(std::abs(v.Number()));
  const int64_t i = v.Integer("abs");
  return i < 0 ? ApplyBinary("-", Value(int64_t{0}), Value(i), budget) : Value(i);
}

Value Default(const Value& v, const Arguments& a, Budget&) {
  const Value* otherwise = a.Get(0, "default_value");
  const bool replace = v.IsUndefined() || (a.Flag(1, "boolean") && !v.Truthy());
  if (!replace) return v;
  return otherwise != nullptr ? *otherwise : Value::Trusted("");
}

Value IndentFilter(const Value& v, const Arguments& a, Budget& budget) {
  const Value* width = a.Get(0, "width");
  const std::string prefix =
      width != nullptr && width->AsText()
          ? width->AsText()->text
          : std::string(static_cast<size_t>(std::clamp<int64_t>(a.Integer(0, "width", 4), 0, 1000)), ' ');
  return Value(Indent(TextOf(v, "indent"), prefix, a.Flag(1, "first"), a.Flag(2, "blank"), budget));
}

Value ToJson(const Value& v, const Arguments& a, Budget& budget) {
  JsonStyle style;
  const Value* indent = a.Get(1, "indent");
  if (indent != nullptr && indent->AsText() != nullptr) {
    style.indent = indent->AsText()->text;
  } else if (indent != nullptr && !indent->IsNone()) {
    style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(indent->Integer("indent"), 0, 16)), ' ');
  }
  if (style.indent) style.comma.resize(1);  // no blank at line ends
  if (const Value* separators = a.Get(2, "separators"); separators != nullptr && !separators->IsNone()) {
    const List* both = separators->AsList();
    if (both == nullptr || both->size() != 2) Fail("tojson: separators are two texts");
    style.comma = TextOf(both->front(), "separators").text;
    style.colon = TextOf(both->back(), "separators").text;
  }
  style.ensure_ascii = a.Flag(0, "ensure_ascii");
  style.sort_keys = a.Flag(3, "sort_keys");
  return Value(ToJsonText(v, style, budget));
}

/// HTML-escapes a value, unless the value is Markup already.
Value Escape(const Value& v, const Arguments&, Budget& budget) {
  return v.AsMarkup() != nullptr ? v : Value(Markup{Escaped(*v.ToText(budget), budget)});
}

/// Parses a JSON text, as llama.cpp's filter from_json does.
Value FromJson(const Value& v, const Arguments&, Budget& budget) {
  const std::string& text = TextOf(v, "from_json").text;
  budget.Walk(text.size());
  ParseJson(text, "from_json",
            {.max_depth = kMaxJsonDepth, .max_nodes = kMaxJsonNodes});  // checks limits; the next parse keeps order
  budget.MakeItems(text.size() / 2);                                    // the most values that the text can hold
  return Value::FromJson(ParseExactJson(text), MarkedText::kFromUser);
}

/// Implements Jinja's filter format, for example "%s of %s" | format(a, b). The arguments are all positional or all
/// named.
Value FormatFilter(const Value& v, const Arguments& a, Budget& budget) {
  if (a.named.empty()) return Value(FormatPercent(*v.ToText(budget), Value(a.positional), budget));
  Dict named;
  for (const auto& [name, value] : a.named) named.Set(name, value, budget);
  return Value(FormatPercent(*v.ToText(budget), Value(std::move(named)), budget));
}

using Filter = std::function<Value(const Value&, const Arguments&, Budget&)>;

const std::map<std::string, Filter>& Filters() {
  using A = Arguments;
  static const std::map<std::string, Filter> filters = {
      {"trim", [](const Value& v, const A& a,
                  Budget& b) { return Value(Strip(*v.ToText(b), Side::kBoth, a.Text(0, "chars"), b)); }},
      {"length", [](const Value& v, const A&, Budget& b) { return Length(v, b); }},
      {"count", [](const Value& v, const A&, Budget& b) { return Length(v, b); }},
      {"upper", [](const Value& v, const A&, Budget& b) { return Value(ToCase(*v.ToText(b), true, b)); }},
      {"lower", [](const Value& v, const A&, Budget& b) { return Value(ToCase(*v.ToText(b), false, b)); }},
      {"capitalize", [](const Value& v, const A&, Budget& b) { return Value(Capitalize(*v.ToText(b), b)); }},
      {"title", [](const Value& v, const A&, Budget& b) { return Value(Title(*v.ToText(b), true, b)); }},
      {"string", [](const Value& v, const A&, Budget& b) { return Value(v.ToText(b)); }},
      {"safe", [](const Value& v, const A&, Budget& b) { return Value(Markup{*v.ToText(b)}); }},
      {"escape", Escape},
      {"e", Escape},
      {"forceescape", [](const Value& v, const A&, Budget& b) { return Value(Markup{Escaped(*v.ToText(b), b)}); }},
      {"int", ToInteger},
      {"float", ToFloat},
      {"round", Rounded},
      {"abs", [](const Value& v, const A&, Budget& b) { return Absolute(v, b); }},
      {"list", [](const Value& v, const A&, Budget& b) { return Value(Items(v, b)); }},
      {"items", [](const Value& v, const A&, Budget& b) { return v.IsUndefined() ? Value(List{}) : DictItems(v, b); }},
      {"first", [](const Value& v, const A&, Budget& b) { return First(v, false, b); }},
      {"last", [](const Value& v, const A&, Budget& b) { return First(v, true, b); }},
      {"reverse", [](const Value& v, const A&, Budget& b) { return Reversed(v, b); }},
      {"unique", Unique},
      {"sort", Sorted},
      {"dictsort", DictSorted},
      {"min", [](const Value& v, const A& a, Budget& b) { return Extreme(v, a, false, b); }},
      {"max", [](const Value& v, const A& a, Budget& b) { return Extreme(v, a, true, b); }},
      {"sum", Sum},
      {"batch", Batch},
      {"join", JoinItems},
      {"default", Default},
      {"d", Default},
      {"indent", IndentFilter},
      {"map", Map},
      {"select", [](const Value& v, const A& a, Budget& b) { return Select(v, a, false, true, b); }},
      {"reject", [](const Value& v, const A& a, Budget& b) { return Select(v, a, false, false, b); }},
      {"selectattr", [](const Value& v, const A& a, Budget& b) { return Select(v, a, true, true, b); }},
      {"rejectattr", [](const Value& v, const A& a, Budget& b) { return Select(v, a, true, false, b); }},
      {"replace",
       [](const Value& v, const A& a, Budget& b) { return CallMethod(Value(v.ToText(b)), "replace", a, b); }},
      {"tojson", ToJson},
      {"from_json", FromJson},
      {"attr",
       [](const Value& v, const A& a, Budget& b) {
         const std::string* name = a.Text(0, "name");
         const Value* found = name != nullptr && v.AsDict() != nullptr ? v.AsDict()->Find(*name, b) : nullptr;
         return found != nullptr && v.AsDict()->is_object ? *found : Value(Undefined{"attr"});
       }},
      {"format", FormatFilter},
      {"wordcount", [](const Value& v, const A&, Budget& b) { return Value(NumWords(*v.ToText(b), b)); }},
  };
  return filters;
}

}  // namespace

Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) Fail("filter \"{}\" is not supported", name);
  return it->second(input, arguments, budget);
}

}  // namespace quire::jinja
