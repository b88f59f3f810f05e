#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/base/json_fwd.h"
#include "coordinator/text/jinja/budget.h"
#include "coordinator/text/marked_text.h"

namespace quire::jinja {

class Value;
using List = std::vector<Value>;
using NamedArguments = std::vector<std::pair<std::string, Value>>;
using TextPointer = std::shared_ptr<const MarkedText>;
using Function = std::function<Value(const List& positional, const NamedArguments& named)>;

/// A list that nobody changes, and that prints in round brackets.
struct Tuple : List {};

/// Text that Jinja counts as finished HTML (the filters safe and escape): whatever is appended to it is escaped for
/// HTML.
struct Markup : MarkedText {};

struct Undefined {
  std::string name;  // for error messages
};
struct None {};

/// An integer that int64_t does not hold. Its text and its comparisons are exact; what computes with it takes a double.
struct LongInteger {
  std::string digits;  // and a sign
};

/// What a mapping is asked for. As in Python, 1, 1.0 and true are the same key, and "1" is another.
using Key = std::variant<std::string, None, bool, int64_t, double>;

/// A mapping that remembers the order of its keys.
struct Dict {
  std::vector<std::pair<Key, Value>> entries;
  bool is_object = false;  // a namespace or a loop: it has attributes, and is no mapping to a template

  const Value* Find(const std::string& key, Budget& budget) const;
  const Value* Find(const Key& key, Budget& budget) const;
  void Set(Key key, Value value, Budget& budget);
};

/// What a template computes with. Everything of no fixed size is shared, as in Python, so that a copy costs nothing;
/// text carries its origin. What looks into values charges the rendering's budget.
class Value {
 public:
  Value() : data_(None{}) {}
  /// Values nest as deep as a template makes them; they end one after the other, not inside each other.
  ~Value();
  Value(const Value&) = default;
  Value(Value&&) = default;
  Value& operator=(const Value&) = default;
  Value& operator=(Value&&) = default;
  Value(Undefined undefined) : data_(std::move(undefined)) {}  // NOLINT(google-explicit-constructor)
  explicit Value(bool b) : data_(b) {}
  explicit Value(int64_t i) : data_(i) {}
  explicit Value(double d) : data_(d) {}
  explicit Value(LongInteger i) : data_(std::make_shared<const LongInteger>(std::move(i))) {}
  explicit Value(MarkedText text) : data_(std::make_shared<const MarkedText>(std::move(text))) {}
  explicit Value(TextPointer text) : data_(std::move(text)) {}
  explicit Value(Markup markup) : data_(std::make_shared<const Markup>(std::move(markup))) {}
  explicit Value(List list) : data_(std::make_shared<List>(std::move(list))) {}
  explicit Value(Tuple tuple) : data_(std::make_shared<Tuple>(std::move(tuple))) {}
  explicit Value(Dict dict) : data_(std::make_shared<Dict>(std::move(dict))) {}
  explicit Value(Function function) : data_(std::make_shared<Function>(std::move(function))) {}

  /// Text of the template's own making.
  static Value Trusted(std::string_view text) { return Value(MarkedText(text, MarkedText::kTrusted)); }
  /// A JSON document; every text in it carries `mark`.
  static Value FromJson(const Json& json, char mark);
  /// The same; mappings keep the order that they were written in.
  static Value FromJson(const OrderedJson& json, char mark);

  template <class T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  /// Of Markup, too.
  const MarkedText* AsText() const {
    const MarkedText* text = Pointer<const MarkedText>();
    return text != nullptr ? text : AsMarkup();
  }
  const Markup* AsMarkup() const { return Pointer<const Markup>(); }
  /// Of tuples, too.
  List* AsList() const {
    List* list = Pointer<List>();
    return list != nullptr ? list : Pointer<Tuple>();
  }
  const Tuple* AsTuple() const { return Pointer<Tuple>(); }
  Dict* AsDict() const { return Pointer<Dict>(); }
  const Function* AsFunction() const { return Pointer<Function>(); }
  bool IsUndefined() const { return As<Undefined>() != nullptr; }
  bool IsNone() const { return As<None>() != nullptr; }
  const LongInteger* AsLongInteger() const { return Pointer<const LongInteger>(); }
  bool IsNumber() const { return As<bool>() || As<int64_t>() || As<double>() || AsLongInteger(); }

  bool Truthy() const;
  /// The number as double; booleans count as 0 and 1. Throws Error for anything else.
  double Number() const;
  /// An integer (or boolean); throws Error naming `what` for anything else.
  int64_t Integer(const char* what) const;
  /// As Python's str() prints it, with the marks of the texts inside.
  TextPointer ToText(Budget& budget) const;
  /// As Python's repr() prints it.
  TextPointer ToReprText(Budget& budget) const;
  const char* TypeName() const;

  static bool Equal(const Value& a, const Value& b, Budget& budget);
  /// True when this is the list or mapping at `container`, or holds it somewhere. What would hold itself is never
  /// made: it would stay for ever.
  bool Reaches(const void* container, Budget& budget) const;
  /// Values that share the mapping; 0 for other kinds.
  int64_t num_holders() const {
    const auto* dict = std::get_if<std::shared_ptr<Dict>>(&data_);
    return dict == nullptr ? 0 : dict->use_count();
  }
  /// Order of numbers or of texts; throws Error for other pairs.
  static bool Less(const Value& a, const Value& b, Budget& budget);

 private:
  template <class T>
  T* Pointer() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&data_);
    return p == nullptr ? nullptr : p->get();
  }
  void MoveChildrenTo(List& out);

  std::variant<Undefined, None, bool, int64_t, double, TextPointer, std::shared_ptr<const Markup>,
               std::shared_ptr<List>, std::shared_ptr<Tuple>, std::shared_ptr<Dict>, std::shared_ptr<Function>,
               std::shared_ptr<const LongInteger>>
      data_;
};

/// How json.dumps writes.
struct JsonStyle {
  std::optional<std::string> indent;  // of a level; none: all in one line
  std::string comma = ", ", colon = ": ";
  bool ensure_ascii = false, sort_keys = false;
};

/// A value as JSON. Texts keep their marks. Throws Error for what JSON has no form for.
MarkedText ToJsonText(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace quire::jinja
