// Jinja's tests, the words after "is" in `x is defined`.
#include <map>

#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

const Value& Argument(const Arguments& a) {
  if (a.positional.empty()) Fail("the test needs an argument");
  return a.positional[0];
}

bool IsMapping(const Value& v) { return v.AsDict() != nullptr && !v.AsDict()->is_object; }
/// True for values that a for loop accepts. An undefined value counts as an empty list.
bool IsIterable(const Value& v) {
  return v.AsList() != nullptr || v.AsText() != nullptr || v.AsDict() != nullptr || v.IsUndefined();
}

/// True for the same list or mapping, and for equal values of the same type. This approximates Python's `is`, which
/// compares where values are stored.
bool IsSame(const Value& v, const Value& other, Budget& budget) {
  if (v.AsList() != nullptr || other.AsList() != nullptr) return v.AsList() == other.AsList();
  if (v.AsDict() != nullptr || other.AsDict() != nullptr) return v.AsDict() == other.AsDict();
  return v.TypeName() == std::string_view(other.TypeName()) && Value::Equal(v, other, budget);
}

double Remainder(const Value& v, const Value& by, Budget& budget) { return ApplyBinary("%", v, by, budget).Number(); }

using Test = bool (*)(const Value&, const Arguments&, Budget&);

const std::map<std::string, Test>& Tests() {
  using V = Value;
  using A = Arguments;
  using B = Budget;
  static constexpr Test kEqual = [](const V& v, const A& a, B& b) { return V::Equal(v, Argument(a), b); };
  static constexpr Test kUnequal = [](const V& v, const A& a, B& b) { return !V::Equal(v, Argument(a), b); };
  static constexpr Test kLess = [](const V& v, const A& a, B& b) { return V::Less(v, Argument(a), b); };
  static constexpr Test kMore = [](const V& v, const A& a, B& b) { return V::Less(Argument(a), v, b); };
  static constexpr Test kIterable = [](const V& v, const A&, B&) { return IsIterable(v); };
  static const std::map<std::string, Test> tests = {
      {"defined", [](const V& v, const A&, B&) { return !v.IsUndefined(); }},
      {"undefined", [](const V& v, const A&, B&) { return v.IsUndefined(); }},
      {"none", [](const V& v, const A&, B&) { return v.IsNone(); }},
      {"string", [](const V& v, const A&, B&) { return v.AsText() != nullptr; }},
      {"mapping", [](const V& v, const A&, B&) { return IsMapping(v); }},
      {"iterable", kIterable},
      {"sequence", kIterable},
      {"number", [](const V& v, const A&, B&) { return v.IsNumber(); }},
      {"integer", [](const V& v, const A&, B&) { return v.As<int64_t>() || v.AsLongInteger(); }},
      {"float", [](const V& v, const A&, B&) { return v.As<double>() != nullptr; }},
      {"boolean", [](const V& v, const A&, B&) { return v.As<bool>() != nullptr; }},
      {"true", [](const V& v, const A&, B&) { return v.As<bool>() != nullptr && v.Truthy(); }},
      {"false", [](const V& v, const A&, B&) { return v.As<bool>() != nullptr && !v.Truthy(); }},
      {"callable", [](const V& v, const A&, B&) { return v.AsFunction() != nullptr || v.IsUndefined(); }},
      {"odd", [](const V& v, const A&, B& b) { return Remainder(v, V(int64_t{2}), b) == 1; }},
      {"even", [](const V& v, const A&, B& b) { return Remainder(v, V(int64_t{2}), b) == 0; }},
      {"upper", [](const V& v, const A&, B& b) { return IsCased(*v.ToText(b), true, b); }},
      {"lower", [](const V& v, const A&, B& b) { return IsCased(*v.ToText(b), false, b); }},
      {"divisibleby", [](const V& v, const A& a, B& b) { return Remainder(v, Argument(a), b) == 0; }},
      {"sameas", [](const V& v, const A& a, B& b) { return IsSame(v, Argument(a), b); }},
      {"in", [](const V& v, const A& a, B& b) { return ApplyBinary("in", v, Argument(a), b).Truthy(); }},
      {"equalto", kEqual},
      {"eq", kEqual},
      {"==", kEqual},
      {"ne", kUnequal},
      {"!=", kUnequal},
      {"lt", kLess},
      {"lessthan", kLess},
      {"<", kLess},
      {"gt", kMore},
      {"greaterthan", kMore},
      {">", kMore},
      {"le", [](const V& v, const A& a, B& b) { return !V::Less(Argument(a), v, b); }},
      {"ge", [](const V& v, const A& a, B& b) { return !V::Less(v, Argument(a), b); }},
  };
  return tests;
}

}  // namespace

bool ApplyTest(const std::string& name, const Value& v, const Arguments& a, Budget& budget) {
  const auto test = Tests().find(name);
  if (test == Tests().end()) Fail("test \"{}\" is not supported", name);
  return test->second(v, a, budget);
}

}  // namespace quire::jinja
