// Python's methods of texts, lists and mappings.
#include <algorithm>
#include <array>

#include "comm/base/error.h"
#include "coordinator/text/characters.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

constexpr int64_t kMaxFilledWidth = 1000;  // characters, for filling methods

/// Returns the text argument at position i or with this name. Throws Error when the argument is missing or no text.
const MarkedText& Needed(const Arguments& a, size_t i, const char* name, const std::string& method) {
  const Value* value = a.Get(i, name);
  if (value == nullptr) Fail("{} needs a text", method);
  return TextOf(*value, method.c_str());
}

int64_t CharactersBefore(const MarkedText& text, size_t byte, Budget& budget) {
  return CharacterIndex(std::string_view(text.text).substr(0, byte), budget).size();
}

/// True when the text begins (startswith) or ends (endswith) with the argument. If the argument is a list, one of its
/// items suffices.
bool HasAffix(const MarkedText& text, const std::string& method, const Arguments& a, Budget& budget) {
  const Value* affix = a.Get(0, "prefix");
  if (affix == nullptr) Fail("{} needs a text", method);
  const auto matches = [&](const Value& one) {
    const std::string& t = TextOf(one, method.c_str()).text;
    budget.Scan(t.size());
    return method == "startswith" ? text.text.starts_with(t) : text.text.ends_with(t);
  };
  return affix->AsList() != nullptr ? std::ranges::any_of(*affix->AsList(), matches) : matches(*affix);
}

/// Returns the position, in characters, of the argument in the text, searched from the left or from the right. If the
/// text does not contain the argument, returns -1, or throws Error for the methods `index` and `rindex`.
int64_t PlaceOf(const MarkedText& text, const std::string& method, const Arguments& a, Budget& budget) {
  const std::string& what = Needed(a, 0, "sub", method).text;
  size_t at = std::string::npos;
  if (method == "find" || method == "index") {
    at = Find(text.text, what, 0, budget);
  } else {
    for (size_t next = Find(text.text, what, 0, budget); next != std::string::npos;
         next = Find(text.text, what, next + 1, budget))
      at = next;
  }
  if (at != std::string::npos) return CharactersBefore(text, at, budget);
  if (method.ends_with("index")) Fail("{}: the text does not hold '{}'", method, what.substr(0, 100));
  return -1;
}

/// Implements ljust, rjust, center and zfill.
MarkedText Filled(const MarkedText& text, const std::string& method, const Arguments& a, Budget& budget) {
  const int64_t width = a.Integer(0, "width", 0), size = CharacterIndex(text.text, budget).size();
  if (width > kMaxFilledWidth) Fail("{}: a width beyond {}", method, kMaxFilledWidth);
  const std::string* given = a.Text(1, "fillchar");
  const std::string fill = method == "zfill" ? "0" : given != nullptr ? *given : " ";
  if (CharacterIndex(fill, budget).size() != 1) Fail("{}: fill with one character", method);
  const int64_t missing = std::max<int64_t>(0, width - size);
  // For center, an odd number of fill characters is divided as in Python.
  const int64_t left = method == "ljust" ? 0 : method == "center" ? missing / 2 + (missing & width & 1) : missing;
  const bool sign = method == "zfill" && (text.text.starts_with('-') || text.text.starts_with('+'));
  MarkedText out = text.Substring(0, sign ? 1 : 0);
  for (int64_t i = 0; i < left; ++i) out += MarkedText(fill, MarkedText::kTrusted);
  out += text.Substring(sign ? 1 : 0);
  for (int64_t i = left; i < missing; ++i) out += MarkedText(fill, MarkedText::kTrusted);
  budget.MakeText(out.text.size());
  return out;
}

/// Returns three texts: the text before the first separator (from_right: the last separator), the separator, and the
/// text after it. If there is no separator, returns the whole text and two empty texts (from_right: the empty texts
/// come first).
Tuple Partition(const MarkedText& text, bool from_right, const Arguments& a, Budget& budget) {
  const MarkedText& separator = Needed(a, 0, "sep", "partition");
  List parts = Split(text, &separator.text, 1, from_right, budget);
  budget.MakeItems(3);
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, Value(separator));
  } else {
    parts.insert(from_right ? parts.begin() : parts.end(), 2, Value::Trusted(""));
  }
  return {std::move(parts)};
}

MarkedText WithoutAffix(const MarkedText& text, bool prefix, const Arguments& a, Budget& budget) {
  const std::string& affix = Needed(a, 0, "affix", prefix ? "removeprefix" : "removesuffix").text;
  budget.Scan(affix.size());
  budget.MakeText(text.text.size());
  if (prefix ? !text.text.starts_with(affix) : !text.text.ends_with(affix)) return text;
  return text.Substring(prefix ? affix.size() : 0, text.text.size() - affix.size());
}

using TextMethod = Value (*)(const MarkedText&, const std::string& name, const Arguments&, Budget&);

template <Side side>
Value StripMethod(const MarkedText& text, const std::string&, const Arguments& a, Budget& budget) {
  return Value(Strip(text, side, a.Text(0, "chars"), budget));
}

template <bool (*is)(char32_t)>
Value AllMethod(const MarkedText& text, const std::string&, const Arguments&, Budget& budget) {
  return Value(AllCharacters(text, is, budget));
}

bool IsLetterOrDigit(char32_t c) { return IsLetter(c) || IsDecimalDigit(c); }

Value SplitMethod(const MarkedText& text, const std::string& name, const Arguments& a, Budget& budget) {
  return Value(Split(text, a.Text(0, "sep"), a.Integer(1, "maxsplit", -1), name == "rsplit", budget));
}

Value ReplaceMethod(const MarkedText& text, const std::string& name, const Arguments& a, Budget& budget) {
  const std::string& from = Needed(a, 0, "old", name).text;
  return Value(Replace(text, from, Needed(a, 1, "new", name), a.Integer(2, "count", -1), budget));
}

const std::map<std::string, TextMethod>& TextMethods() {
  using T = MarkedText;
  using N = std::string;
  using A = Arguments;
  using B = Budget;
  static const std::map<std::string, TextMethod> methods = {
      {"strip", StripMethod<Side::kBoth>},
      {"lstrip", StripMethod<Side::kLeft>},
      {"rstrip", StripMethod<Side::kRight>},
      {"isdigit", AllMethod<IsDecimalDigit>},
      {"isdecimal", AllMethod<IsDecimalDigit>},
      {"isnumeric", AllMethod<IsDecimalDigit>},
      {"isalpha", AllMethod<IsLetter>},
      {"isalnum", AllMethod<IsLetterOrDigit>},
      {"isspace", AllMethod<IsBlank>},
      {"isupper", [](const T& t, const N&, const A&, B& b) { return Value(IsCased(t, true, b)); }},
      {"islower", [](const T& t, const N&, const A&, B& b) { return Value(IsCased(t, false, b)); }},
      {"upper", [](const T& t, const N&, const A&, B& b) { return Value(ToCase(t, true, b)); }},
      {"lower", [](const T& t, const N&, const A&, B& b) { return Value(ToCase(t, false, b)); }},
      {"swapcase", [](const T& t, const N&, const A&, B& b) { return Value(SwapCase(t, b)); }},
      {"capitalize", [](const T& t, const N&, const A&, B& b) { return Value(Capitalize(t, b)); }},
      {"title", [](const T& t, const N&, const A&, B& b) { return Value(Title(t, false, b)); }},
      {"split", SplitMethod},
      {"rsplit", SplitMethod},
      {"splitlines", [](const T& t, const N&, const A& a, B& b) { return Value(Lines(t, a.Flag(0, "keepends"), b)); }},
      {"partition", [](const T& t, const N&, const A& a, B& b) { return Value(Partition(t, false, a, b)); }},
      {"rpartition", [](const T& t, const N&, const A& a, B& b) { return Value(Partition(t, true, a, b)); }},
      {"replace", ReplaceMethod},
      {"removeprefix", [](const T& t, const N&, const A& a, B& b) { return Value(WithoutAffix(t, true, a, b)); }},
      {"removesuffix", [](const T& t, const N&, const A& a, B& b) { return Value(WithoutAffix(t, false, a, b)); }},
      {"startswith", [](const T& t, const N& n, const A& a, B& b) { return Value(HasAffix(t, n, a, b)); }},
      {"endswith", [](const T& t, const N& n, const A& a, B& b) { return Value(HasAffix(t, n, a, b)); }},
      {"find", [](const T& t, const N& n, const A& a, B& b) { return Value(PlaceOf(t, n, a, b)); }},
      {"rfind", [](const T& t, const N& n, const A& a, B& b) { return Value(PlaceOf(t, n, a, b)); }},
      {"index", [](const T& t, const N& n, const A& a, B& b) { return Value(PlaceOf(t, n, a, b)); }},
      {"rindex", [](const T& t, const N& n, const A& a, B& b) { return Value(PlaceOf(t, n, a, b)); }},
      {"count",
       [](const T& t, const N& n, const A& a, B& b) { return Value(Count(t, Needed(a, 0, "sub", n).text, b)); }},
      {"ljust", [](const T& t, const N& n, const A& a, B& b) { return Value(Filled(t, n, a, b)); }},
      {"rjust", [](const T& t, const N& n, const A& a, B& b) { return Value(Filled(t, n, a, b)); }},
      {"center", [](const T& t, const N& n, const A& a, B& b) { return Value(Filled(t, n, a, b)); }},
      {"zfill", [](const T& t, const N& n, const A& a, B& b) { return Value(Filled(t, n, a, b)); }},
      {"join",
       [](const T& t, const N&, const A& a, B& b) {
         const Value* items = a.Get(0, "iterable");
         return Value(Join(items != nullptr ? Items(*items, b) : List{}, t, b));
       }},
      {"format", [](const T& t, const N&, const A& a, B& b) { return Value(Format(t, a.positional, a.named, b)); }},
  };
  return methods;
}

Value CallDictMethod(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  const Dict& dict = *self.AsDict();
  if (name == "items") return DictItems(self, budget);
  if (name == "keys") return Value(Items(self, budget));
  if (name == "values") {
    budget.MakeItems(dict.entries.size());
    List values;
    for (const auto& [key, value] : dict.entries) values.push_back(value);
    return Value(std::move(values));
  }
  if (name == "copy") {
    budget.MakeItems(2 * dict.entries.size());
    return Value(Dict(dict));
  }
  const Value* asked = a.Get(0, "key");
  const std::optional<Key> key = asked != nullptr ? KeyOf(*asked) : std::nullopt;
  const Value* found = key ? dict.Find(*key, budget) : nullptr;
  if (found != nullptr) return *found;
  return a.Get(1, "default") != nullptr ? *a.Get(1, "default") : Value();
}

Value CallListMethod(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  if (self.AsTuple() != nullptr && name != "count" && name != "index") Fail("tuples have no method {}", name);
  List& list = *self.AsList();
  if (name == "append" && a.positional.size() == 1) {
    if (a.positional[0].Reaches(&list, budget)) Fail("a list would hold itself");
    budget.MakeItems(1);
    list.push_back(a.positional[0]);
    return Value();
  }
  if (name == "pop") {
    const auto size = static_cast<int64_t>(list.size());
    int64_t i = a.Integer(0, "index", -1);
    if (i < 0) i += size;
    if (i < 0 || i >= size) Fail("pop: the list has no such item");
    budget.Work(1 + static_cast<size_t>(size - i));
    Value taken = std::move(list[static_cast<size_t>(i)]);
    list.erase(list.begin() + i);
    return taken;
  }
  if ((name == "count" || name == "index") && a.positional.size() == 1) {
    const auto same = [&](const Value& item) { return Value::Equal(item, a.positional[0], budget); };
    if (name == "count") return Value(static_cast<int64_t>(std::ranges::count_if(list, same)));
    const auto at = std::ranges::find_if(list, same);
    if (at == list.end()) Fail("index: the list has no such item");
    return Value(static_cast<int64_t>(at - list.begin()));
  }
  if (name == "copy") {
    budget.MakeItems(list.size());
    return Value(List(list));
  }
  Fail("list has no method {}", name);
}

}  // namespace

bool IsMethod(const Dict& dict, const std::string& name) {
  static constexpr std::array<std::string_view, 5> kNames = {"copy", "get", "items", "keys", "values"};
  return !dict.is_object && std::ranges::find(kNames, name) != kNames.end();
}

Value Method(const std::string& name) {
  // The placeholder must not hold the mapping, because a mapping that contains its own method would never be freed.
  return Value(Function([name](const List&, const NamedArguments&) -> Value {
    Fail("the method {} can only be called where it is named", name);
  }));
}

Value CallMethod(const Value& self, const std::string& name, const Arguments& a, Budget& budget) {
  if (const MarkedText* text = self.AsText()) {
    const auto method = TextMethods().find(name);
    if (method == TextMethods().end()) Fail("texts have no method {}", name);
    return method->second(*text, name, a, budget);
  }
  if (const Dict* dict = self.AsDict(); dict != nullptr && IsMethod(*dict, name))
    return CallDictMethod(self, name, a, budget);
  if (self.AsList() != nullptr) return CallListMethod(self, name, a, budget);
  Fail("{} has no method {}", self.TypeName(), name);
}

}  // namespace quire::jinja
