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

/// An immutable list that prints in round brackets.
struct Tuple : List {};

/// Text that Jinja takes for finished HTML (filters safe and escape). Other text is HTML-escaped when it is appended.
struct Markup : MarkedText {};

struct Undefined {
  std::string name;  // the undefined variable, for error messages
};
struct None {};

/// An integer beyond int64_t. Its text, and a comparison of two such integers, are exact; arithmetic uses a double.
struct LongInteger {
  std::string digits;  // begins with '-' if negative
};

/// A key of a mapping. As in Python, 1, 1.0 and true are the same key, and "1" is another key.
using Key = std::variant<std::string, None, bool, int64_t, double>;

/// A mapping whose keys stay in the order in which they were added.
struct Dict {
  std::vector<std::pair<Key, Value>> entries;
  bool is_object = false;  // a namespace or loop: has attributes and is no mapping to templates

  const Value* Find(const std::string& key, Budget& budget) const;
  const Value* Find(const Key& key, Budget& budget) const;
  void Set(Key key, Value value, Budget& budget);
};

/// A value of a template. As in Python, lists, mappings and texts are shared, so that copying a value is cheap. The
/// marks of a text say where each byte comes from. Operations charge the rendering's budget.
class Value {
 public:
  Value() : data_(None{}) {}
  /// Destroys nested values one after another without recursion, because templates may nest them deeply.
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

  /// Returns a text that the template itself has made, so its bytes are marked as trusted.
  static Value Trusted(std::string_view text) { return Value(MarkedText(text, MarkedText::kTrusted)); }
  /// Returns a JSON document as a value; `mark` becomes the mark of every byte in its texts.
  static Value FromJson(const Json& json, char mark);
  /// Returns a JSON document as a value whose mappings keep the document's order; `mark` becomes the mark of every
  /// byte.
  static Value FromJson(const OrderedJson& json, char mark);

  template <class T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  /// Returns the text of a text or of Markup; null for other values.
  const MarkedText* AsText() const {
    const MarkedText* text = Pointer<const MarkedText>();
    return text != nullptr ? text : AsMarkup();
  }
  const Markup* AsMarkup() const { return Pointer<const Markup>(); }
  /// Returns the items of a list or of a tuple; null for other values.
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
  /// Returns the number as a double; booleans are 0 and 1. Throws Error for other types.
  double Number() const;
  /// Returns an integer, or a boolean as 0 or 1. Throws Error, which names `what`, for values of other types.
  int64_t Integer(const char* what) const;
  /// Returns the value as Python's str() prints it; texts in it have their marks.
  TextPointer ToText(Budget& budget) const;
  /// Returns the value as Python's repr() prints it.
  TextPointer ToReprText(Budget& budget) const;
  const char* TypeName() const;

  static bool Equal(const Value& a, const Value& b, Budget& budget);
  /// True when this value is or contains the list or mapping at `container`. Callers use it to refuse cycles, which
  /// shared pointers would never free.
  bool Reaches(const void* container, Budget& budget) const;
  /// Returns the number of values that share this mapping; 0 for other types.
  int64_t num_holders() const {
    const auto* dict = std::get_if<std::shared_ptr<Dict>>(&data_);
    return dict == nullptr ? 0 : dict->use_count();
  }
  /// True when `a` sorts before `b`. Throws Error unless `a` and `b` are both numbers, both texts, both lists or both
  /// tuples.
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

/// Options of json.dumps.
struct JsonStyle {
  std::optional<std::string> indent;  // white space for each level; nullopt: everything on one line
  std::string comma = ", ", colon = ": ";
  bool ensure_ascii = false, sort_keys = false;
};

/// Returns a value as JSON; the bytes of texts have their marks. Throws Error for values that JSON cannot express.
MarkedText ToJsonText(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace quire::jinja
