#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

constexpr size_t kMaxNamed = 200;  // bytes of a name repeated in an error message

/// Returns the items as a tuple if `model` is a tuple, otherwise as a list.
Value LikeList(const Value& model, List items) {
  return model.AsTuple() != nullptr ? Value(Tuple{std::move(items)}) : Value(std::move(items));
}

Value Repeat(const Value& value, int64_t count, Budget& budget) {
  const MarkedText* text = value.AsText();
  const size_t each = text != nullptr ? text->text.size() : value.AsList()->size();
  const auto times = static_cast<size_t>(std::max<int64_t>(0, count));
  size_t size = 0;
  if (__builtin_mul_overflow(times, std::max<size_t>(each, 1), &size)) size = SIZE_MAX;
  if (text != nullptr) {
    budget.MakeText(size);
    MarkedText out;
    for (size_t i = 0; i < times; ++i) out += *text;
    return Value(std::move(out));
  }
  budget.MakeItems(size);
  const List& list = *value.AsList();
  List out;
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), list.begin(), list.end());
  return LikeList(value, std::move(out));
}

bool IsIntegral(const Value& v) { return v.As<int64_t>() || v.As<bool>(); }

/// Returns `a op b` for integers. // and % follow Python: the remainder has the divisor's sign.
Value IntegerArithmetic(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &out);
  if (op == "//" || op == "%") {
    if (b == 0) Fail("division by zero");
    if (b == -1) return op == "%" ? Value(int64_t{0}) : IntegerArithmetic("-", 0, a);
    const int64_t quotient = a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
    out = op == "//" ? quotient : a - quotient * b;
  }
  if (overflow) Fail("integer overflow in '{}'", op);
  return Value(out);
}

Value Arithmetic(const std::string& op, const Value& left, const Value& right) {
  if (!left.IsNumber() || !right.IsNumber())
    Fail("'{}' is not defined for {} and {}", op, left.TypeName(), right.TypeName());
  if (IsIntegral(left) && IsIntegral(right) && op != "/" && op != "**") {
    return IntegerArithmetic(op, left.Integer("arithmetic"), right.Integer("arithmetic"));
  }
  const double a = left.Number(), b = right.Number();
  if ((op == "/" || op == "//" || op == "%") && b == 0) Fail("division by zero");
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  if (op == "%") return Value(a - std::floor(a / b) * b);
  const double power = std::pow(a, b);
  if (IsIntegral(left) && IsIntegral(right) && b >= 0 && std::abs(power) < 9e15)
    return Value(static_cast<int64_t>(power));
  return Value(power);
}

bool Contains(const Value& container, const Value& item, Budget& budget) {
  if (const MarkedText* text = container.AsText()) {
    if (item.AsText() == nullptr) Fail("'in' needs a text on the left of a text, got {}", item.TypeName());
    return Find(text->text, item.AsText()->text, 0, budget) != std::string::npos;
  }
  if (const Dict* dict = container.AsDict()) {
    const std::optional<Key> key = KeyOf(item);
    return key && dict->Find(*key, budget) != nullptr;
  }
  if (const List* list = container.AsList())
    return std::ranges::any_of(*list, [&](const Value& one) { return Value::Equal(one, item, budget); });
  if (container.IsUndefined()) return false;
  Fail("'in' is not defined for {}", container.TypeName());
}

Value Concatenate(MarkedText left, const MarkedText& right, Budget& budget) {
  budget.MakeText(left.text.size() + right.text.size());
  left += right;
  return Value(std::move(left));
}

/// Concatenates two texts, of which at least one is Markup. HTML-escapes a text that is not Markup.
Value ConcatenateMarkup(const Value& left, const Value& right, Budget& budget) {
  const MarkedText &a = *left.AsText(), &b = *right.AsText();
  Markup out{left.AsMarkup() != nullptr ? a : Escaped(a, budget)};
  out += right.AsMarkup() != nullptr ? b : Escaped(b, budget);
  budget.MakeText(out.text.size());
  return Value(std::move(out));
}

Value Add(const Value& left, const Value& right, Budget& budget) {
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    if (left.AsMarkup() != nullptr || right.AsMarkup() != nullptr) return ConcatenateMarkup(left, right, budget);
    return Concatenate(*left.AsText(), *right.AsText(), budget);
  }
  if (left.AsList() != nullptr && right.AsList() != nullptr &&
      (left.AsTuple() == nullptr) == (right.AsTuple() == nullptr)) {
    budget.MakeItems(left.AsList()->size() + right.AsList()->size());
    List out = *left.AsList();
    out.insert(out.end(), right.AsList()->begin(), right.AsList()->end());
    return LikeList(left, std::move(out));
  }
  return Arithmetic("+", left, right);
}

/// Turns a negative index, which counts from the end, into a position. Returns false when there is no item at the
/// position.
bool Within(int64_t& index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size;
}

/// The item positions first, first + stride, ..., up to but excluding `last`, as Python's slices choose them.
struct Range {
  int64_t first, last, stride;

  Range(const Value* start, const Value* stop, const Value* step, int64_t size) {
    const auto given = [](const Value* v) { return v != nullptr && !v->IsNone(); };
    const int64_t wanted = given(step) ? step->Integer("slice step") : 1;
    if (wanted == 0) Fail("a slice step of 0");
    stride = std::clamp(wanted, -size - 1, size + 1);  // a larger step makes no difference
    const auto bound = [&](const Value* v, int64_t otherwise) {
      if (!given(v)) return otherwise;
      const int64_t i = v->Integer("slice");
      return std::clamp(i < 0 ? i + size : i, stride > 0 ? int64_t{0} : int64_t{-1}, stride > 0 ? size : size - 1);
    };
    first = bound(start, stride > 0 ? 0 : size - 1);
    last = bound(stop, stride > 0 ? size : -1);
  }
  bool Holds(int64_t i) const { return stride > 0 ? i < last : i > last; }
  size_t size() const {
    if (!Holds(first)) return 0;
    return static_cast<size_t>((std::abs(last - first) + std::abs(stride) - 1) / std::abs(stride));
  }
};

MarkedText SliceText(const MarkedText& text, const CharacterIndex& characters, const Range& range, Budget& budget) {
  if (range.size() == 0) return {};
  if (range.stride == 1) {
    const size_t begin = characters.Begin(range.first), count = characters.Begin(range.last) - begin;
    budget.MakeText(count);
    return text.Substring(begin, count);
  }
  budget.Work(range.size());
  budget.MakeText(text.text.size());
  MarkedText out;
  for (int64_t i = range.first; range.Holds(i); i += range.stride)
    out += text.Substring(characters.Begin(i), characters.Begin(i + 1) - characters.Begin(i));
  return out;
}

}  // namespace

Value ApplyBinary(const std::string& op, const Value& left, const Value& right, Budget& budget) {
  if (op == "==") return Value(Value::Equal(left, right, budget));
  if (op == "!=") return Value(!Value::Equal(left, right, budget));
  if (op == "<") return Value(Value::Less(left, right, budget));
  if (op == ">") return Value(Value::Less(right, left, budget));
  if (op == "<=") return Value(!Value::Less(right, left, budget));
  if (op == ">=") return Value(!Value::Less(left, right, budget));
  if (op == "in") return Value(Contains(right, left, budget));
  if (op == "not in") return Value(!Contains(right, left, budget));
  if (op == "~") return Concatenate(*left.ToText(budget), *right.ToText(budget), budget);  // without escaping
  if (op == "+") return Add(left, right, budget);
  if (op == "*") {
    if ((left.AsText() || left.AsList()) && IsIntegral(right)) return Repeat(left, right.Integer("'*'"), budget);
    if ((right.AsText() || right.AsList()) && IsIntegral(left)) return Repeat(right, left.Integer("'*'"), budget);
  }
  if (op == "%" && left.AsText() != nullptr) return Value(FormatPercent(*left.AsText(), right, budget));
  return Arithmetic(op, left, right);
}

Value Subscript(const Value& value, const Value& index, Budget& budget) {
  if (const Dict* dict = value.AsDict()) {
    const std::optional<Key> key = KeyOf(index);
    const Value* found = key ? dict->Find(*key, budget) : nullptr;
    if (found != nullptr) return *found;
    if (index.AsText() != nullptr && IsMethod(*dict, index.AsText()->text)) return Method(index.AsText()->text);
    return Value(Undefined{index.AsText() != nullptr && index.AsText()->text.size() < kMaxNamed ? index.AsText()->text
                                                                                                : "item"});
  }
  if (value.AsList() == nullptr && value.AsText() == nullptr) {
    if (const auto* undefined = value.As<Undefined>()) Fail("'{}' is undefined", undefined->name);
    return Value(Undefined{"item"});
  }
  if (!IsIntegral(index)) return Value(Undefined{"item"});
  int64_t i = index.Integer("subscript");
  if (const List* list = value.AsList())
    return Within(i, static_cast<int64_t>(list->size())) ? (*list)[static_cast<size_t>(i)] : Value(Undefined{"item"});
  const MarkedText& text = *value.AsText();
  const CharacterIndex characters(text.text, budget);
  if (!Within(i, characters.size())) return Value(Undefined{"item"});
  budget.MakeText(1);
  return Value(text.Substring(characters.Begin(i), characters.Begin(i + 1) - characters.Begin(i)));
}

Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step, Budget& budget) {
  if (const MarkedText* text = value.AsText()) {
    const CharacterIndex characters(text->text, budget);
    return Value(SliceText(*text, characters, Range(start, stop, step, characters.size()), budget));
  }
  if (value.AsList() == nullptr) Fail("{} cannot be sliced", value.TypeName());
  const List& items = *value.AsList();
  const Range range(start, stop, step, static_cast<int64_t>(items.size()));
  budget.MakeItems(range.size());
  List out;
  for (int64_t i = range.first; range.Holds(i); i += range.stride) out.push_back(items[static_cast<size_t>(i)]);
  return LikeList(value, std::move(out));
}

}  // namespace quire::jinja
