#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// What kind of request has the fields.
enum class FieldsOf { kCompletions, kChat, kMessages, kEmbeddings, kRerank, kScore };

/// What becomes of fields that nobody knows. May be used by several threads.
class UnknownFields {
 public:
  /// ignored: they are passed over, each with one line in the log; else the request is refused.
  explicit UnknownFields(bool ignored) : ignored_(ignored) {}

  /// Throws ApiError that names the field, and the known one that is spelled most like it. Null counts as absent.
  void Check(const Json& body, FieldsOf kind) const;

 private:
  /// True when the log is to have a line of this name: once, and of no more than some hundred names.
  bool IsNew(const std::string& name) const;

  const bool ignored_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // names that are in the log; a bounded number
};

/// True for fields that such requests have, or that are refused or passed over by name.
bool IsKnownField(std::string_view name, FieldsOf kind);
/// The known field that is spelled most like it; empty where none is.
std::string NearestField(std::string_view name, FieldsOf kind);

}  // namespace quire
