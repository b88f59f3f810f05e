#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// An object inside a request, with its members in the order of the text. The object knows its path in the body, for
/// errors such as "messages[2].content[0].text must be a string". null counts as absent. Bad values throw ApiError 400.
class JsonObject {
 public:
  /// `place` is the object's path in the body; empty: the body itself. Throws when the value is not an object. The
  /// value must outlive this object.
  JsonObject(const OrderedJson& value, std::string place);

  /// Returns the member; null when it is absent.
  const OrderedJson* Find(const char* name) const;
  bool Has(const char* name) const { return Find(name) != nullptr; }
  std::optional<std::string> OptionalText(const char* name) const;
  std::string Text(const char* name) const;  // throws when absent
  bool Flag(const char* name, bool otherwise) const;
  /// Returns the member as an object; throws when absent.
  JsonObject Object(const char* name) const;
  /// Calls `take` for each item of the member, a list of objects; throws when the member is absent.
  void ForEach(const char* name, const std::function<void(const JsonObject&)>& take) const;
  /// Returns a member that is a string. For a list of objects, returns the concatenation of text_of(item). Throws when
  /// the member is absent.
  std::string JoinedText(const char* name, const std::function<std::string(const JsonObject&)>& text_of) const;
  /// Throws ApiError for the first non-null member whose name is not in `names`.
  void KnowOnly(std::initializer_list<std::string_view> names) const;

  const OrderedJson& value() const { return value_; }
  const std::string& place() const { return place_; }
  /// Returns the path of a member: "place.name".
  std::string Place(std::string_view name) const;
  [[noreturn]] void Refuse(std::string_view name, const std::string& reason) const;
  /// Throws an error about the object as a whole.
  [[noreturn]] void Refuse(const std::string& reason) const;

 private:
  const OrderedJson& value_;
  std::string place_;
};

}  // namespace quire
