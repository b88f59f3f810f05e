#include "coordinator/text/jinja/builtins.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "comm/base/error.h"
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

Value Length(const Value& v, Budget& budget) {
  if (const MarkedText* text = v.AsText()) return Value(CharacterIndex(text->text, budget).size());
  if (const Dict* dict = v.AsDict()) return Value(static_cast<int64_t>(dict->entries.size()));
  if (const List* list = v.AsList()) return Value(static_cast<int64_t>(list->size()));
  return Value(static_cast<int64_t>(Items(v, budget).size()));
}

Value DictItems(const Value& v, Budget& budget) {
  if (v.AsDict() == nullptr) Fail("items: expected a mapping, got {}", v.TypeName());
  const auto& entries = v.AsDict()->entries;
  budget.MakeItems(3 * entries.size());
  List out;
  for (const auto& [key, value] : entries) out.emplace_back(List{KeyText(key, budget), value});
  return Value(std::move(out));
}

Value ToInteger(const Value& v, Budget& budget) {
  if (v.As<int64_t>()) return v;
  if (v.IsNumber()) {
    if (!(std::abs(v.Number()) < 0x1p63)) Fail("int: {} is out of range", v.Number());
    return Value(static_cast<int64_t>(v.Number()));
  }
  if (v.AsText() != nullptr) budget.Walk(v.AsText()->text.size());
  try {
    return Value(static_cast<int64_t>(std::stoll(Text(v, "int").text)));
  } catch (const std::logic_error&) {
    return Value(int64_t{0});
  }
}

Value ToFloat(const Value& v, Budget& budget) {
  if (v.IsNumber()) return Value(v.Number());
  if (v.AsText() != nullptr) budget.Walk(v.AsText()->text.size());
  try {
    return Value(std::stod(Text(v, "float").text));
  } catch (const std::logic_error&) {
    return Value(0.0);
  }
}

/// selectattr, rejectattr, select, reject: keeps items whose attribute (or that themselves) pass a test.
Value Select(const Value& input, const Arguments& a, bool by_attribute, bool keep, Budget& budget) {
  const size_t test_at = by_attribute ? 1 : 0;
  const Value* attribute = by_attribute ? a.Get(0, "attribute") : nullptr;
  if (by_attribute && attribute == nullptr) Fail("selectattr: which attribute?");
  const Value* test = a.Get(test_at, "test");
  Arguments rest;
  budget.MakeItems(a.positional.size());
  if (a.positional.size() > test_at + 1) {
    rest.positional.assign(a.positional.begin() + static_cast<ptrdiff_t>(test_at) + 1, a.positional.end());
  }
  List out;
  if (!input.Truthy()) return Value(std::move(out));  // none, too
  for (const Value& item : Items(input, budget)) {
    const Value subject = by_attribute ? Subscript(item, *attribute, budget) : item;
    const bool passes =
        test != nullptr ? ApplyTest(Text(*test, "select").text, subject, rest, budget) : subject.Truthy();
    if (passes == keep) out.push_back(item);
  }
  return Value(std::move(out));
}

Value Map(const Value& input, const Arguments& a, Budget& budget) {
  const Budget::Level level(budget);  // a filter that is mapped may be map
  List out;
  const Value* attribute = a.Get(SIZE_MAX, "attribute");
  const Value* filter = a.Get(0, "filter");
  if (attribute == nullptr && filter == nullptr) Fail("map: which attribute or filter?");
  if (!input.Truthy()) return Value(std::move(out));  // none, too
  Arguments rest;
  budget.MakeItems(a.positional.size());
  if (a.positional.size() > 1) rest.positional.assign(a.positional.begin() + 1, a.positional.end());
  for (const Value& item : Items(input, budget)) {
    if (attribute != nullptr) {
      Value got = Subscript(item, *attribute, budget);
      const Value* otherwise = a.Get(SIZE_MAX, "default");
      out.push_back(got.IsUndefined() && otherwise != nullptr ? *otherwise : std::move(got));
    } else {
      out.push_back(ApplyFilter(Text(*filter, "map").text, item, rest, budget));
    }
  }
  return Value(std::move(out));
}

Value Sorted(const Value& input, const Arguments& a, Budget& budget) {
  const Value* attribute = a.Get(SIZE_MAX, "attribute");
  const Value* reverse = a.Get(0, "reverse");
  std::vector<std::pair<Value, Value>> keyed;  // what decides, and the item
  for (const Value& item : Items(input, budget))
    keyed.emplace_back(attribute != nullptr ? Subscript(item, *attribute, budget) : item, item);
  budget.MakeItems(2 * keyed.size());
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const auto& x, const auto& y) { return Value::Less(x.first, y.first, budget); });
  if (reverse != nullptr && reverse->Truthy()) std::reverse(keyed.begin(), keyed.end());
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value(std::move(out));
}

/// The smallest or largest item, the first of equal ones.
Value Extreme(const Value& v, bool largest, Budget& budget) {
  const List items = Items(v, budget);
  const Value* found = nullptr;
  for (const Value& item : items) {
    if (found == nullptr || (largest ? Value::Less(*found, item, budget) : Value::Less(item, *found, budget)))
      found = &item;
  }
  return found != nullptr ? *found : Value(Undefined{largest ? "max" : "min"});
}

/// Pairs of key and value, by key whatever its case.
Value DictSort(const Value& v, const Arguments& a, Budget& budget) {
  if (!a.positional.empty() || !a.named.empty()) Fail("dictsort takes no arguments here");
  const Value pairs = DictItems(v, budget);
  std::vector<std::pair<std::string, Value>> keyed;
  for (const Value& pair : *pairs.AsList())
    keyed.emplace_back(ToCase(*pair.AsList()->front().AsText(), false, budget).text, pair);
  budget.Work(8 * keyed.size());
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    budget.Scan(std::min(x.first.size(), y.first.size()));
    return x.first < y.first;
  });
  List out;
  for (auto& [key, pair] : keyed) out.push_back(std::move(pair));
  return Value(std::move(out));
}

Value Default(const Value& v, const Arguments& a, Budget&) {
  const Value* otherwise = a.Get(0, "default_value");
  const Value* also_false = a.Get(1, "boolean");
  const bool replace = v.IsUndefined() || (also_false != nullptr && also_false->Truthy() && !v.Truthy());
  if (!replace) return v;
  return otherwise != nullptr ? *otherwise : Value::Trusted("");
}

Value JoinFilter(const Value& v, const Arguments& a, Budget& budget) {
  const Value* separator = a.Get(0, "d");
  const Value* attribute = a.Get(1, "attribute");
  List items = Items(v, budget);
  if (attribute != nullptr) {
    for (Value& item : items) item = Subscript(item, *attribute, budget);
  }
  return Value(Join(items, separator != nullptr ? *separator->ToText(budget) : MarkedText{}, budget));
}

Value First(const Value& v, bool last, Budget& budget) {
  const List* list = v.AsList();
  const List items = list != nullptr ? List{} : Items(v, budget);
  const List& all = list != nullptr ? *list : items;
  if (all.empty()) return Value(Undefined{last ? "last" : "first"});
  return last ? all.back() : all.front();
}

Value Reversed(const Value& v, Budget& budget) {
  List items = Items(v, budget);
  std::reverse(items.begin(), items.end());
  return v.AsText() != nullptr ? Value(Join(items, {}, budget)) : Value(std::move(items));
}

/// The first of those that are equal. Texts and numbers are looked up, the rest is compared with one another.
Value Unique(const Value& v, Budget& budget) {
  List out, others;
  std::set<std::string_view> texts;
  std::set<double> numbers;
  const List items = Items(v, budget);  // owns what `texts` views
  for (const Value& item : items) {
    bool is_new = false;
    if (const MarkedText* text = item.AsText()) {
      budget.Scan(text->text.size() * 4);
      is_new = texts.insert(text->text).second;
    } else if (item.IsNumber()) {
      budget.Work(4);
      is_new = std::isnan(item.Number()) || numbers.insert(item.Number()).second;
    } else {
      is_new = std::ranges::none_of(others, [&](const Value& other) { return Value::Equal(other, item, budget); });
      if (is_new) others.push_back(item);
    }
    if (is_new) out.push_back(item);
  }
  budget.MakeItems(2 * out.size());
  return Value(std::move(out));
}

Value IndentFilter(const Value& v, const Arguments& a, Budget& budget) {
  const Value* width = a.Get(0, "width");
  const std::string prefix =
      width != nullptr && width->AsText()
          ? width->AsText()->text
          : std::string(static_cast<size_t>(std::clamp<int64_t>(IntegerOr(width, 4, "indent"), 0, 1000)), ' ');
  const Value* first = a.Get(1, "first");
  return Value(Indent(Text(v, "indent"), prefix, first != nullptr && first->Truthy(), budget));
}

using Filter = std::function<Value(const Value&, const Arguments&, Budget&)>;

const std::map<std::string, Filter>& Filters() {
  using A = Arguments;
  static const std::map<std::string, Filter> filters = {
      {"trim",
       [](const Value& v, const A& a, Budget& b) {
         return Value(Strip(*v.ToText(b), Side::kBoth, OptionalText(a.Get(0, "chars"), "trim"), b));
       }},
      {"length", [](const Value& v, const A&, Budget& b) { return Length(v, b); }},
      {"count", [](const Value& v, const A&, Budget& b) { return Length(v, b); }},
      {"upper", [](const Value& v, const A&, Budget& b) { return Value(ToCase(*v.ToText(b), true, b)); }},
      {"lower", [](const Value& v, const A&, Budget& b) { return Value(ToCase(*v.ToText(b), false, b)); }},
      {"capitalize", [](const Value& v, const A&, Budget& b) { return Value(Capitalize(*v.ToText(b), b)); }},
      {"title", [](const Value& v, const A&, Budget& b) { return Value(Title(*v.ToText(b), true, b)); }},
      {"string", [](const Value& v, const A&, Budget& b) { return Value(v.ToText(b)); }},
      {"safe", [](const Value& v, const A&, Budget&) { return v; }},
      {"int", [](const Value& v, const A&, Budget& b) { return ToInteger(v, b); }},
      {"float", [](const Value& v, const A&, Budget& b) { return ToFloat(v, b); }},
      {"abs",
       [](const Value& v, const A&, Budget& b) {
         if (v.As<double>()) return Value(std::abs(v.Number()));
         const int64_t i = v.Integer("abs");
         return i < 0 ? ApplyBinary("-", Value(int64_t{0}), Value(i), b) : Value(i);
       }},
      {"list", [](const Value& v, const A&, Budget& b) { return Value(Items(v, b)); }},
      {"items", [](const Value& v, const A&, Budget& b) { return v.IsUndefined() ? Value(List{}) : DictItems(v, b); }},
      {"first", [](const Value& v, const A&, Budget& b) { return First(v, false, b); }},
      {"last", [](const Value& v, const A&, Budget& b) { return First(v, true, b); }},
      {"reverse", [](const Value& v, const A&, Budget& b) { return Reversed(v, b); }},
      {"unique", [](const Value& v, const A&, Budget& b) { return Unique(v, b); }},
      {"sort", Sorted},
      {"dictsort", DictSort},
      {"min", [](const Value& v, const A&, Budget& b) { return Extreme(v, false, b); }},
      {"max", [](const Value& v, const A&, Budget& b) { return Extreme(v, true, b); }},
      {"join", JoinFilter},
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
      {"tojson",
       [](const Value& v, const A& a, Budget& b) {
         const int64_t indent = IntegerOr(a.Get(0, "indent"), -1, "tojson");
         return Value(ToJsonText(v, static_cast<int>(std::clamp<int64_t>(indent, -1, 16)), b));
       }},
  };
  return filters;
}

Value CallTextMethod(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  const MarkedText& text = *self.AsText();
  const auto argument = [&](size_t i, const char* n) { return OptionalText(a.Get(i, n), name.c_str()); };
  if (name == "strip") return Value(Strip(text, Side::kBoth, argument(0, "chars"), budget));
  if (name == "lstrip") return Value(Strip(text, Side::kLeft, argument(0, "chars"), budget));
  if (name == "rstrip") return Value(Strip(text, Side::kRight, argument(0, "chars"), budget));
  if (name == "upper") return Value(ToCase(text, true, budget));
  if (name == "lower") return Value(ToCase(text, false, budget));
  if (name == "capitalize") return Value(Capitalize(text, budget));
  if (name == "title") return Value(Title(text, false, budget));
  if (name == "split" || name == "rsplit") {
    const int64_t most = IntegerOr(a.Get(1, "maxsplit"), -1, "split");
    return Value(Split(text, argument(0, "sep"), most, name == "rsplit", budget));
  }
  if (name == "splitlines") {
    const std::string newline = "\n";
    List lines = Split(text, &newline, -1, false, budget);
    if (!lines.empty() && lines.back().AsText()->text.empty()) lines.pop_back();
    return Value(std::move(lines));
  }
  if (name == "replace") {
    const std::string* from = argument(0, "old");
    const Value* to = a.Get(1, "new");
    if (from == nullptr || to == nullptr) Fail("replace needs two texts");
    return Value(Replace(text, *from, Text(*to, "replace"), IntegerOr(a.Get(2, "count"), -1, "replace"), budget));
  }
  if (name == "startswith" || name == "endswith") {
    const Value* affix = a.Get(0, "prefix");
    if (affix == nullptr) Fail("{} needs a text", name);
    const auto matches = [&](const Value& one) {
      const std::string& t = Text(one, name.c_str()).text;
      budget.Scan(t.size());
      return name == "startswith" ? text.text.starts_with(t) : text.text.ends_with(t);
    };
    return Value(affix->AsList() != nullptr ? std::ranges::any_of(*affix->AsList(), matches) : matches(*affix));
  }
  if (name == "find") {
    const size_t at = Find(text.text, argument(0, "sub") != nullptr ? *argument(0, "sub") : "", 0, budget);
    if (at == std::string::npos) return Value(int64_t{-1});
    return Value(CharacterIndex(std::string_view(text.text).substr(0, at), budget).size());
  }
  if (name == "count") {
    const std::string* what = argument(0, "sub");
    return Value(what == nullptr ? int64_t{0} : Count(text, *what, budget));
  }
  if (name == "join") {
    const Value* items = a.Get(0, "iterable");
    return Value(Join(items != nullptr ? Items(*items, budget) : List{}, text, budget));
  }
  if (name == "format") return Value(Format(text, a.positional, a.named, budget));
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

Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments, Budget& budget) {
  const auto it = Filters().find(name);
  if (it == Filters().end()) Fail("filter \"{}\" is not supported", name);
  return it->second(input, arguments, budget);
}

bool ApplyTest(const std::string& name, const Value& v, const Arguments& a, Budget& budget) {
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
    return !ApplyBinary("%", Value(v.Integer("divisibleby")), Value(other().Integer("divisibleby")), budget).Truthy();
  if (name == "equalto" || name == "eq" || name == "==") return Value::Equal(v, other(), budget);
  if (name == "ne" || name == "!=") return !Value::Equal(v, other(), budget);
  if (name == "in") return ApplyBinary("in", v, other(), budget).Truthy();
  if (name == "lt" || name == "lessthan") return Value::Less(v, other(), budget);
  if (name == "gt" || name == "greaterthan") return Value::Less(other(), v, budget);
  Fail("test \"{}\" is not supported", name);
}

Value CallMethod(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  if (self.AsText() != nullptr) return CallTextMethod(self, name, a, budget);
  if (const Dict* dict = self.AsDict()) {
    if (name == "items") return DictItems(self, budget);
    if (name == "keys") return Value(Items(self, budget));
    if (name == "values") {
      budget.MakeItems(dict->entries.size());
      List values;
      for (const auto& [key, value] : dict->entries) values.push_back(value);
      return Value(std::move(values));
    }
    if (name == "get") {
      const Value* key = a.Get(0, "key");
      const Value* found =
          key != nullptr && key->AsText() != nullptr ? dict->Find(key->AsText()->text, budget) : nullptr;
      if (found != nullptr) return *found;
      return a.Get(1, "default") != nullptr ? *a.Get(1, "default") : Value();
    }
  }
  if (List* list = self.AsList()) {
    if (name == "append" && a.positional.size() == 1) {
      if (a.positional[0].Reaches(list, budget)) Fail("a list would hold itself");
      budget.MakeItems(1);
      list->push_back(a.positional[0]);
      return Value();
    }
    if (name == "pop" && !list->empty()) {
      Value last = list->back();
      list->pop_back();
      return last;
    }
    if (name == "count" && a.positional.size() == 1)
      return Value(static_cast<int64_t>(std::ranges::count_if(
          *list, [&](const Value& item) { return Value::Equal(item, a.positional[0], budget); })));
  }
  Fail("{} has no method {}", self.TypeName(), name);
}

}  // namespace quire::jinja
