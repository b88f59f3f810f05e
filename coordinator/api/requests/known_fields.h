#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// The kind of request to which fields belong.
enum class FieldsOf { kCompletions, kChat, kMessages, kResponses, kEmbeddings, kRerank, kScore, kClassify, kPooling };

/// OpenAI's error code for a field that the request should not have. An error with this code names the field as it was
/// sent.
inline constexpr char kUnknownFieldCode[] = "unknown_parameter";

/// True for a field that is passed over on every endpoint because its value changes no answer.
bool IsPassedOver(std::string_view name, const Json& value);
/// Returns the remedy for a field that requests of this kind do not have: "use max_output_tokens", or "leave it out".
/// `kind` decides which names are known.
std::string UnknownFieldRemedy(std::string_view name, FieldsOf kind);
/// Throws ApiError for the unknown field `name`. The error's text is `name`, a space and `words`.
[[noreturn]] void RefuseUnknownField(const std::string& name, const std::string& words);

/// Handles fields with unknown names. The class is thread-safe.
class UnknownFields {
 public:
  /// ignored: true skips unknown fields, with one line in the log for each name; false refuses them.
  explicit UnknownFields(bool ignored) : ignored_(ignored) {}

  /// Handles the fields of a body that requests of this kind do not have. Unless unknown fields are ignored, throws
  /// ApiError that names such a field and a remedy: another field with this meaning, the known field with the most
  /// similar name, or leaving the field out. A field whose value is null counts as absent.
  void Check(const Json& body, FieldsOf kind) const;

 private:
  /// True for a name that must be logged: it was not logged before, and fewer than 256 names were.
  bool IsNew(const std::string& name) const;

  const bool ignored_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // logged names; a bounded number
};

/// True for fields that requests of this kind have, even if the server refuses or ignores them.
bool IsKnownField(std::string_view name, FieldsOf kind);
/// Returns the known field with the most similar name; empty when none is similar.
std::string NearestField(std::string_view name, FieldsOf kind);

}  // namespace quire
