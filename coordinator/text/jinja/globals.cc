#include "coordinator/text/jinja/globals.h"

#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/utf8.h"

namespace quire::jinja {

namespace {

constexpr size_t kMaxRange = 100'000;     // integers per range
constexpr size_t kMaxReasonBytes = 1000;  // length of an error message from raise_exception

Value RangeOf(const List& a, Budget& budget) {
  if (a.empty() || a.size() > 3) Fail("range takes one to three integers");
  const int64_t begin = a.size() > 1 ? a[0].Integer("range") : 0;
  const int64_t end = a[a.size() > 1 ? 1 : 0].Integer("range");
  const int64_t step = a.size() > 2 ? a[2].Integer("range") : 1;
  if (step == 0) Fail("range with step 0");
  List out;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (out.size() >= kMaxRange) Fail("range is too long: more than {} integers", kMaxRange);
    budget.Work(1);
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  budget.MakeItems(out.size());
  return Value(std::move(out));
}

/// Makes a mapping from an optional first argument, which is another mapping or a list of pairs, and from named
/// arguments.
Dict MakeDict(const List& a, const NamedArguments& named, Budget& budget) {
  Dict dict;
  if (!a.empty()) {
    const Value pairs = a[0].AsDict() != nullptr ? DictItems(a[0], budget) : a[0];
    for (const Value& pair : Items(pairs, budget)) {
      const List both = Items(pair, budget);
      const std::optional<Key> key = both.size() == 2 ? KeyOf(both[0]) : std::nullopt;
      if (!key) Fail("a mapping is made of another one, or of pairs of a key and a value");
      dict.Set(*key, both[1], budget);
    }
  }
  for (const auto& [key, value] : named) dict.Set(key, value, budget);
  return dict;
}

[[noreturn]] void Refuse(const List& a, Budget& budget) {
  if (a.empty()) Fail("the template refuses this conversation");
  const std::string& reason = a[0].ToText(budget)->text;
  Fail("{}", reason.size() <= kMaxReasonBytes ? reason : ValidUtf8(reason.substr(0, kMaxReasonBytes)) + "...");
}

}  // namespace

Scope Globals(Budget& budget) {
  Scope globals;
  globals["range"] = Value(Function([&budget](const List& a, const NamedArguments&) { return RangeOf(a, budget); }));
  globals["dict"] = Value(
      Function([&budget](const List& a, const NamedArguments& named) { return Value(MakeDict(a, named, budget)); }));
  globals["namespace"] = Value(Function([&budget](const List& a, const NamedArguments& named) {
    Dict dict = MakeDict(a, named, budget);
    dict.is_object = true;
    return Value(std::move(dict));
  }));
  globals["raise_exception"] =
      Value(Function([&budget](const List& a, const NamedArguments&) -> Value { Refuse(a, budget); }));
  return globals;
}

}  // namespace quire::jinja
