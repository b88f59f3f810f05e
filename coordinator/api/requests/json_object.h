#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// An object inside a request, in the order that it was written in, that knows its place: errors say
/// "messages[2].content[0].text must be a string". null counts as absent. What is wrong throws ApiError 400.
class JsonObject {
 public:
  /// place: where it stands; empty: it is the body itself. Throws when the value is no object. The value outlives this.
  JsonObject(const OrderedJson& value, std::string place);

  /// Null when it is not there.
  const OrderedJson* Find(const char* name) const;
  bool Has(const char* name) const { return Find(name) != nullptr; }
  std::optional<std::string> OptionalText(const char* name) const;
  std::string Text(const char* name) const;  // refuses its absence
  bool Flag(const char* name, bool otherwise) const;
  /// The object under that name; refuses its absence.
  JsonObject Object(const char* name) const;
  /// Calls `take` for every item of the list under that name, which must be objects; refuses its absence.
  void ForEach(const char* name, const std::function<void(const JsonObject&)>& take) const;
  /// The text under that name; or, where a list of objects stands there, what `text_of` makes of them, one behind the
  /// other. Refuses its absence.
  std::string JoinedText(const char* name, const std::function<std::string(const JsonObject&)>& text_of) const;
  /// Refuses every other member that is there, by name.
  void KnowOnly(std::initializer_list<std::string_view> names) const;

  const OrderedJson& value() const { return value_; }
  const std::string& place() const { return place_; }
  /// "place.name"
  std::string Place(std::string_view name) const;
  [[noreturn]] void Refuse(std::string_view name, const std::string& reason) const;
  /// Refuses the object as a whole.
  [[noreturn]] void Refuse(const std::string& reason) const;

 private:
  const OrderedJson& value_;
  std::string place_;
};

}  // namespace quire
