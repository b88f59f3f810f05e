#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "comm/base/json.h"

namespace quire {

/// The kind of request that has the fields.
enum class FieldsOf { kCompletions, kChat, kMessages, kResponses, kEmbeddings, kRerank, kScore, kClassify, kPooling };

/// OpenAI's code of an error about a field that the request should not have. Such an error names the field as it was
/// sent.
inline constexpr char kUnknownFieldCode[] = "unknown_parameter";

/// True for a field that is passed over on every endpoint because its value changes no answer.
bool IsPassedOver(std::string_view name, const Json& value);
/// What to do about a field that requests of this kind do not have: "use max_output_tokens", or "leave it out". `kind`
/// decides which names are known.
std::string UnknownFieldRemedy(std::string_view name, FieldsOf kind);
/// Throws ApiError about such a field.
[[noreturn]] void RefuseUnknownField(const std::string& name, const std::string& words);

/// Handles fields with unknown names. Thread-safe.
class UnknownFields {
 public:
  /// ignored: true skips unknown fields, with one line in the log for each name; false refuses them.
  explicit UnknownFields(bool ignored) : ignored_(ignored) {}

  /// Throws ApiError that names an unknown field and the remedy: the field that serves for it here, the known field
  /// with the most similar name, or to leave it out. null counts as absent.
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
