#include "coordinator/text/jinja/builtins.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "comm/error.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

const MarkedText& Text(const Value& value, const char* what) {
  if (value.AsText() == nullptr) Fail("{}: expected a text, got {}", what, value.TypeName());
  return *value.AsText();
}

int64_t IntegerOr(const Value* value, int64_t otherwise, const char* what) {
  return value == nullptr || value->IsNone() ? otherwise : value->Integer(what);
}

const std::string* OptionalText(const Value* value, const char* what) {
  return value == nullptr || value->IsNone() ? nullptr : &Text(*value, what).text;
}

Value Length(const Value& v) {
  if (const MarkedText* text = v.AsText()) return Value(static_cast<int64_t>(Characters(*text).size()));
  if (const Dict* dict = v.AsDict()) return Value(static_cast<int64_t>(dict->entries.size()));
  return Value(static_cast<int64_t>(Items(v).size()));
}

Value DictItems(const Value& v) {
  if (v.AsDict() == nullptr) Fail("items: expected a mapping, got {}", v.TypeName());
  List out;
  for (const auto& [key, value] : v.AsDict()->entries) {
    out.emplace_back(List{Value(MarkedText(key, MarkedText::kFromUser)), value});
  }
  return Value(std::move(out));
}

Value ToInteger(const Value& v) {
  if (v.As<int64_t>()) return v;
  if (v.IsNumber()) {
    if (!(std::abs(v.Number()) < 0x1p63)) Fail("int: {} is out of range", v.Number());
    return Value(static_cast<int64_t>(v.Number()));
  }
  try {
    return Value(static_cast<int64_t>(std::stoll(Text(v, "int").text)));
  } catch (const std::logic_error&) {
    return Value(int64_t{0});
  }
}

Value ToFloat(const Value& v) {
  if (v.IsNumber()) return Value(v.Number());
  try {
    return Value(std::stod(Text(v, "float").text));
  } catch (const std::logic_error&) {
    return Value(0.0);
  }
}

/// selectattr, rejectattr, select, reject: keeps items whose attribute (or that themselves) pass a test.
Value Select(const Value& input, const Arguments& a, bool by_attribute, bool keep) {
  const size_t test_at = by_attribute ? 1 : 0;
  const Value* attribute = by_attribute ? a.Get(0, "attribute") : nullptr;
  if (by_attribute && attribute == nullptr) Fail("selectattr: which attribute?");
  const Value* test = a.Get(test_at, "test");
  Arguments rest;
  if (a.positional.size() > test_at + 1) {
    rest.positional.assign(a.positional.begin() + static_cast<ptrdiff_t>(test_at) + 1, a.positional.end());
  }
  List out;
  for (const Value& item : Items(input)) {
    const Value subject = by_attribute ? Subscript(item, *attribute) : item;
    const bool passes = test != nullptr ? ApplyTest(Text(*test, "select").text, subject, rest) : subject.Truthy();
    if (passes == keep) out.push_back(item);
  }
  return Value(std::move(out));
}

Value Map(const Value& input, const Arguments& a) {
  List out;
  const Value* attribute = a.Get(SIZE_MAX, "attribute");
  const Value* filter = a.Get(0, "filter");
  if (attribute == nullptr && filter == nullptr) Fail("map: which attribute or filter?");
  Arguments rest;
  if (a.positional.size() > 1) rest.positional.assign(a.positional.begin() + 1, a.positional.end());
  for (const Value& item : Items(input)) {
    if (attribute != nullptr) {
      Value got = Subscript(item, *attribute);
      const Value* otherwise = a.Get(SIZE_MAX, "default");
      out.push_back(got.IsUndefined() && otherwise != nullptr ? *otherwise : std::move(got));
    } else {
      out.push_back(ApplyFilter(Text(*filter, "map").text, item, rest));
    }
  }
  return Value(std::move(out));
}

Value Sorted(const Value& input, const Arguments& a) {
  List items = Items(input);
  const Value* attribute = a.Get(SIZE_MAX, "attribute");
  const Value* reverse = a.Get(0, "reverse");
  std::stable_sort(items.begin(), items.end(), [&](const Value& x, const Value& y) {
    return attribute != nullptr ? Value::Less(Subscript(x, *attribute), Subscript(y, *attribute)) : Value::Less(x, y);
  });
  if (reverse != nullptr && reverse->Truthy()) std::reverse(items.begin(), items.end());
  return Value(std::move(items));
}

Value Default(const Value& v, const Arguments& a) {
  const Value* otherwise = a.Get(0, "default_value");
  const Value* also_false = a.Get(1, "boolean");
  const bool replace = v.IsUndefined() || (also_false != nullptr && also_false->Truthy() && !v.Truthy());
  if (!replace) return v;
  return otherwise != nullptr ? *otherwise : Value::Trusted("");
}

Value JoinFilter(const Value& v, const Arguments& a) {
  const Value* separator = a.Get(0, "d");
  const Value* attribute = a.Get(1, "attribute");
  List items = Items(v);
  if (attribute != nullptr) {
    for (Value& item : items) item = Subscript(item, *attribute);
  }
  return Value(Join(items, separator != nullptr ? separator->ToText() : MarkedText{}));
}

Value First(const Value& v, bool last) {
  const List items = Items(v);
  if (items.empty()) return Value(Undefined{last ? "last" : "first"});
  return last ? items.back() : items.front();
}

Value Reversed(const Value& v) {
  List items = Items(v);
  std::reverse(items.begin(), items.end());
  return v.AsText() != nullptr ? Value(Join(items, {})) : Value(std::move(items));
}

Value Unique(const Value& v) {
  List out;
  for (const Value& item : Items(v)) {
    if (std::find(out.begin(), out.end(), item) == out.end()) out.push_back(item);
  }
  return Value(std::move(out));
}

Value IndentFilter(const Value& v, const Arguments& a) {
  const Value* width = a.Get(0, "width");
  const std::string prefix =
      width != nullptr && width->AsText()
          ? width->AsText()->text
          : std::string(static_cast<size_t>(std::clamp<int64_t>(IntegerOr(width, 4, "indent"), 0, 1000)), ' ');
  const Value* first = a.Get(1, "first");
  return Value(Indent(Text(v, "indent"), prefix, first != nullptr && first->Truthy()));
}

using Filter = std::function<Value(const Value&, const Arguments&)>;

const std::map<std::string, Filter>& Filters() {
  static const std::map<std::string, Filter> filters = {
      {"trim",
       [](const Value& v, const Arguments& a) {
         return Value(Strip(v.ToText(), Side::kBoth, OptionalText(a.Get(0, "chars"), "trim")));
       }},
      {"length", [](const Value& v, const Arguments&) { return Length(v); }},
      {"count", [](const Value& v, const Arguments&) { return Length(v); }},
      {"upper", [](const Value& v, const Arguments&) { return Value(ToCase(v.ToText(), true)); }},
      {"lower", [](const Value& v, const Arguments&) { return Value(ToCase(v.ToText(), false)); }},
      {"capitalize", [](const Value& v, const Arguments&) { return Value(Capitalize(v.ToText())); }},
      {"title", [](const Value& v, const Arguments&) { return Value(Title(v.ToText(), true)); }},
      {"string", [](const Value& v, const Arguments&) { return Value(v.ToText()); }},
      {"safe", [](const Value& v, const Arguments&) { return v; }},
      {"int", [](const Value& v, const Arguments&) { return ToInteger(v); }},
      {"float", [](const Value& v, const Arguments&) { return ToFloat(v); }},
      {"abs",
       [](const Value& v, const Arguments&) {
         if (v.As<double>()) return Value(std::abs(v.Number()));
         const int64_t i = v.Integer("abs");
         return i < 0 ? ApplyBinary("-", Value(int64_t{0}), Value(i)) : Value(i);
       }},
      {"list", [](const Value& v, const Arguments&) { return Value(Items(v)); }},
      {"items", [](const Value& v, const Arguments&) { return v.IsUndefined() ? Value(List{}) : DictItems(v); }},
      {"first", [](const Value& v, const Arguments&) { return First(v, false); }},
      {"last", [](const Value& v, const Arguments&) { return First(v, true); }},
      {"reverse", [](const Value& v, const Arguments&) { return Reversed(v); }},
      {"unique", [](const Value& v, const Arguments&) { return Unique(v); }},
      {"sort", Sorted},
      {"join", JoinFilter},
      {"default", Default},
      {"d", Default},
      {"indent", IndentFilter},
      {"map", Map},
      {"select", [](const Value& v, const Arguments& a) { return Select(v, a, false, true); }},
      {"reject", [](const Value& v, const Arguments& a) { return Select(v, a, false, false); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, true); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, false); }},
      {"replace", [](const Value& v, const Arguments& a) { return CallMethod(Value(v.ToText()), "replace", a); }},
      {"tojson",
       [](const Value& v, const Arguments& a) {
         const int64_t indent = IntegerOr(a.Get(0, "indent"), -1, "tojson");
         return Value(ToJsonText(v, static_cast<int>(std::clamp<int64_t>(indent, -1, 16))));
       }},
  };
  return filters;
}

Value CallTextMethod(const Value& self, const std::string& name, const Arguments& a) {
  const MarkedText& text = *self.AsText();
  const auto argument = [&](size_t i, const char* n) { return OptionalText(a.Get(i, n), name.c_str()); };
  if (name == "strip") return Value(Strip(text, Side::kBoth, argument(0, "chars")));
  if (name == "lstrip") return Value(Strip(text, Side::kLeft, argument(0, "chars")));
  if (name == "rstrip") return Value(Strip(text, Side::kRight, argument(0, "chars")));
  if (name == "upper") return Value(ToCase(text, true));
  if (name == "lower") return Value(ToCase(text, false));
  if (name == "capitalize") return Value(Capitalize(text));
  if (name == "title") return Value(Title(text, false));
  if (name == "split" || name == "rsplit") {
    return Value(Split(text, argument(0, "sep"), IntegerOr(a.Get(1, "maxsplit"), -1, "split"), name == "rsplit"));
  }
  if (name == "splitlines") {
    const std::string newline = "\n";
    List lines = Split(text, &newline, -1, false);
    if (!lines.empty() && lines.back().AsText()->text.empty()) lines.pop_back();
    return Value(std::move(lines));
  }
  if (name == "replace") {
    const std::string* from = argument(0, "old");
    const Value* to = a.Get(1, "new");
    if (from == nullptr || to == nullptr) Fail("replace needs two texts");
    return Value(Replace(text, *from, Text(*to, "replace"), IntegerOr(a.Get(2, "count"), -1, "replace")));
  }
  if (name == "startswith" || name == "endswith") {
    const Value* affix = a.Get(0, "prefix");
    if (affix == nullptr) Fail("{} needs a text", name);
    for (const Value& one : affix->AsList() != nullptr ? *affix->AsList() : List{*affix}) {
      const std::string& t = Text(one, name.c_str()).text;
      if (name == "startswith" ? text.text.starts_with(t) : text.text.ends_with(t)) return Value(true);
    }
    return Value(false);
  }
  if (name == "find") {
    const size_t at = text.text.find(argument(0, "sub") != nullptr ? *argument(0, "sub") : "");
    return Value(at == std::string::npos ? int64_t{-1}
                                         : static_cast<int64_t>(Characters(text.Substring(0, at)).size()));
  }
  if (name == "count") {
    const std::string* what = argument(0, "sub");
    return Value(what == nullptr ? int64_t{0} : static_cast<int64_t>(Split(text, what, -1, false).size()) - 1);
  }
  if (name == "join")
    return Value(Join(Items(a.Get(0, "iterable") != nullptr ? *a.Get(0, "iterable") : Value(List{})), text));
  Fail("texts have no method {}", name);
}

}  // namespace

const Value* Arguments::Get(size_t i, const char* name) const {
  if (i < positional.size()) return &positional[i];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) Fail("filter \"{}\" is not supported", name);
  return it->second(input, arguments);
}

bool ApplyTest(const std::string& name, const Value& v, const Arguments& a) {
  const auto other = [&]() -> const Value& {
    if (a.positional.empty()) Fail("test \"{}\" needs an argument", name);
    return a.positional[0];
  };
  if (name == "defined") return !v.IsUndefined();
  if (name == "undefined") return v.IsUndefined();
  if (name == "none") return v.IsNone();
  if (name == "string") return v.AsText() != nullptr;
  if (name == "mapping") return v.AsDict() != nullptr;
  if (name == "iterable" || name == "sequence")
    return v.AsList() != nullptr || v.AsText() != nullptr || v.AsDict() != nullptr;
  if (name == "number") return v.IsNumber();
  if (name == "integer") return v.As<int64_t>() != nullptr;
  if (name == "float") return v.As<double>() != nullptr;
  if (name == "boolean") return v.As<bool>() != nullptr;
  if (name == "true") return v.As<bool>() != nullptr && v.Truthy();
  if (name == "false") return v.As<bool>() != nullptr && !v.Truthy();
  if (name == "callable") return v.AsFunction() != nullptr;
  if (name == "odd") return v.Integer("odd") % 2 != 0;
  if (name == "even") return v.Integer("even") % 2 == 0;
  if (name == "divisibleby")
    return !ApplyBinary("%", Value(v.Integer("divisibleby")), Value(other().Integer("divisibleby"))).Truthy();
  if (name == "equalto" || name == "eq" || name == "==") return v == other();
  if (name == "ne" || name == "!=") return !(v == other());
  if (name == "in") return ApplyBinary("in", v, other()).Truthy();
  if (name == "lt" || name == "lessthan") return Value::Less(v, other());
  if (name == "gt" || name == "greaterthan") return Value::Less(other(), v);
  Fail("test \"{}\" is not supported", name);
}

Value CallMethod(const Value& self, const std::string& name, const Arguments& a) {
  if (self.AsText() != nullptr) return CallTextMethod(self, name, a);
  if (const Dict* dict = self.AsDict()) {
    if (name == "items") return DictItems(self);
    if (name == "keys") return Value(Items(self));
    if (name == "values") {
      List values;
      for (const auto& [key, value] : dict->entries) values.push_back(value);
      return Value(std::move(values));
    }
    if (name == "get") {
      const Value* key = a.Get(0, "key");
      const Value* found = key != nullptr && key->AsText() != nullptr ? dict->Find(key->AsText()->text) : nullptr;
      if (found != nullptr) return *found;
      return a.Get(1, "default") != nullptr ? *a.Get(1, "default") : Value();
    }
  }
  if (List* list = self.AsList()) {
    if (name == "append" && a.positional.size() == 1) {
      if (a.positional[0].Reaches(list)) Fail("a list would hold itself");
      list->push_back(a.positional[0]);
      return Value();
    }
    if (name == "pop" && !list->empty()) {
      Value last = list->back();
      list->pop_back();
      return last;
    }
    if (name == "count" && a.positional.size() == 1)
      return Value(static_cast<int64_t>(std::count(list->begin(), list->end(), a.positional[0])));
  }
  Fail("{} has no method {}", self.TypeName(), name);
}

}  // namespace quire::jinja
