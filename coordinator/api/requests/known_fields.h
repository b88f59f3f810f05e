#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// The kind of request that has the fields.
enum class FieldsOf { kCompletions, kChat, kMessages, kEmbeddings, kRerank, kScore };

/// Handles fields with unknown names. Thread-safe.
class UnknownFields {
 public:
  /// ignored: true skips unknown fields, with one line in the log for each name; false refuses them.
  explicit UnknownFields(bool ignored) : ignored_(ignored) {}

  /// Throws ApiError that names an unknown field and the known field with the most similar name. null counts as absent.
  void Check(const Json& body, FieldsOf kind) const;

 private:
  /// True for a name that is not logged yet. Only the first few hundred names are logged.
  bool IsNew(const std::string& name) const;

  const bool ignored_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // logged names; a bounded number
};

/// True for names of fields that requests of this kind have, also if the server refuses or ignores these fields.
bool IsKnownField(std::string_view name, FieldsOf kind);
/// Returns the known field with the most similar name; empty when none is similar.
std::string NearestField(std::string_view name, FieldsOf kind);

}  // namespace quire
