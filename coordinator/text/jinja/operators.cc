#include <algorithm>
#include <cmath>

#include "comm/error.h"
#include "coordinator/text/jinja/text_functions.h"

namespace quire::jinja {

namespace {

Value Repeat(const Value& value, int64_t count) {
  count = std::max<int64_t>(0, count);
  if (count > static_cast<int64_t>(kMaxMade)) Fail("'*' makes too long a value");
  if ((value.AsText() ? value.AsText()->text.size() : value.AsList()->size()) == 0) return value;
  if (const MarkedText* text = value.AsText()) {
    if (static_cast<size_t>(count) * text->text.size() > kMaxMade) Fail("'*' makes too long a text");
    MarkedText out;
    for (int64_t i = 0; i < count; ++i) out += *text;
    return Value(std::move(out));
  }
  const List& list = *value.AsList();
  if (static_cast<size_t>(count) * list.size() > kMaxItems) Fail("'*' makes too long a list");
  List out;
  for (int64_t i = 0; i < count; ++i) out.insert(out.end(), list.begin(), list.end());
  return Value(std::move(out));
}

bool IsIntegral(const Value& v) { return v.As<int64_t>() || v.As<bool>(); }

/// Python's floor division and modulo: the remainder has the divisor's sign.
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

bool Contains(const Value& container, const Value& item) {
  if (const MarkedText* text = container.AsText()) {
    if (item.AsText() == nullptr) Fail("'in' needs a text on the left of a text, got {}", item.TypeName());
    return text->text.find(item.AsText()->text) != std::string::npos;
  }
  if (const Dict* dict = container.AsDict())
    return item.AsText() != nullptr && dict->Find(item.AsText()->text) != nullptr;
  if (const List* list = container.AsList()) return std::find(list->begin(), list->end(), item) != list->end();
  if (container.IsUndefined()) return false;
  Fail("'in' is not defined for {}", container.TypeName());
}

Value Add(const Value& left, const Value& right) {
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    MarkedText out = *left.AsText();
    out += *right.AsText();
    if (out.text.size() > kMaxMade) Fail("'+' makes too long a text");
    return Value(std::move(out));
  }
  if (left.AsList() != nullptr && right.AsList() != nullptr) {
    List out = *left.AsList();
    out.insert(out.end(), right.AsList()->begin(), right.AsList()->end());
    if (out.size() > kMaxItems) Fail("'+' makes too long a list");
    return Value(std::move(out));
  }
  return Arithmetic("+", left, right);
}

}  // namespace

Value ApplyBinary(const std::string& op, const Value& left, const Value& right) {
  if (op == "==") return Value(left == right);
  if (op == "!=") return Value(!(left == right));
  if (op == "<") return Value(Value::Less(left, right));
  if (op == ">") return Value(Value::Less(right, left));
  if (op == "<=") return Value(!Value::Less(right, left));
  if (op == ">=") return Value(!Value::Less(left, right));
  if (op == "in") return Value(Contains(right, left));
  if (op == "not in") return Value(!Contains(right, left));
  if (op == "~") return Add(Value(left.ToText()), Value(right.ToText()));
  if (op == "+") return Add(left, right);
  if (op == "*") {
    if ((left.AsText() || left.AsList()) && IsIntegral(right)) return Repeat(left, right.Integer("'*'"));
    if ((right.AsText() || right.AsList()) && IsIntegral(left)) return Repeat(right, left.Integer("'*'"));
  }
  if (op == "%" && left.AsText() != nullptr) Fail("'%' formatting of text is not supported");
  return Arithmetic(op, left, right);
}

Value Subscript(const Value& value, const Value& index) {
  if (const Dict* dict = value.AsDict()) {
    const Value* found = index.AsText() != nullptr ? dict->Find(index.AsText()->text) : nullptr;
    return found != nullptr ? *found : Value(Undefined{index.AsText() != nullptr ? index.AsText()->text : "item"});
  }
  if (value.AsList() != nullptr || value.AsText() != nullptr) {
    if (!IsIntegral(index)) return Value(Undefined{"item"});
    const List items = Items(value);
    const auto size = static_cast<int64_t>(items.size());
    int64_t i = index.Integer("subscript");
    if (i < 0) i += size;
    return i >= 0 && i < size ? items[static_cast<size_t>(i)] : Value(Undefined{"item"});
  }
  if (const auto* undefined = value.As<Undefined>()) Fail("'{}' is undefined", undefined->name);
  return Value(Undefined{"item"});
}

Value Slice(const Value& value, const Value* start, const Value* stop, const Value* step) {
  if (value.AsList() == nullptr && value.AsText() == nullptr) Fail("{} cannot be sliced", value.TypeName());
  const List items = Items(value);
  const auto size = static_cast<int64_t>(items.size());
  const auto given = [](const Value* v) { return v != nullptr && !v->IsNone(); };
  const int64_t wanted = given(step) ? step->Integer("slice step") : 1;
  if (wanted == 0) Fail("a slice step of 0");
  const int64_t stride = std::clamp(wanted, -size - 1, size + 1);  // more is no different
  const auto bound = [&](const Value* v, int64_t otherwise) {
    if (!given(v)) return otherwise;
    const int64_t i = v->Integer("slice");
    return std::clamp(i < 0 ? i + size : i, stride > 0 ? int64_t{0} : int64_t{-1}, stride > 0 ? size : size - 1);
  };
  const int64_t first = bound(start, stride > 0 ? 0 : size - 1), last = bound(stop, stride > 0 ? size : -1);
  List out;
  for (int64_t i = first; stride > 0 ? i < last : i > last; i += stride) out.push_back(items[static_cast<size_t>(i)]);
  if (value.AsText() != nullptr) return Value(Join(out, {}));
  return Value(std::move(out));
}

List Items(const Value& value) {
  if (const List* list = value.AsList()) return *list;
  if (const MarkedText* text = value.AsText()) return Characters(*text);
  if (value.IsUndefined()) return {};
  if (const Dict* dict = value.AsDict()) {
    List keys;
    for (const auto& [key, item] : dict->entries) keys.emplace_back(MarkedText(key, MarkedText::kFromUser));
    return keys;
  }
  Fail("{} is not iterable", value.TypeName());
}

}  // namespace quire::jinja
