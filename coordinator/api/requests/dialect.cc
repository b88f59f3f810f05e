#include "coordinator/api/requests/dialect.h"

#include <cctype>
#include <span>
#include <string>

#include "coordinator/api/requests/known_fields.h"

namespace quire {

namespace {

struct Name {
  std::string_view path;
  Dialect dialect;
};

constexpr Name kDialectNames[] = {{"/v1/completions", Dialect::kCompletions},
                                  {"/v1/chat/completions", Dialect::kChat},
                                  {"/v1/messages", Dialect::kMessages},
                                  {"/v1/responses", Dialect::kResponses},
                                  {"/v1/embeddings", Dialect::kEmbeddings},
                                  {"/v1/rerank", Dialect::kRerank},
                                  {"/v2/rerank", Dialect::kRerank},
                                  {"/rerank", Dialect::kRerank},
                                  {"/v1/score", Dialect::kScore},
                                  {"/score", Dialect::kScore},
                                  {"/classify", Dialect::kClassify},
                                  {"/v1/classify", Dialect::kClassify},
                                  {"/pooling", Dialect::kPooling},
                                  {"/v1/pooling", Dialect::kPooling}};

/// A field's name in a chat request, and its name in a dialect. In the lists below, a longer path comes before its
/// prefixes.
struct Field {
  std::string_view chat, here;
};

constexpr Field kOfMessages[] = {{"response_format.json_schema.schema", "output_config.format.schema"},
                                 {"response_format.json_schema", "output_config.format"},
                                 {"response_format", "output_config.format"},
                                 {"reasoning_effort", "output_config.effort"},
                                 {"enable_thinking", "thinking"},
                                 {"thinking_token_budget", "thinking.budget_tokens"},
                                 {"stop", "stop_sequences"}};
constexpr Field kOfResponses[] = {{"response_format.json_schema", "text.format"},
                                  {"response_format", "text.format"},
                                  {"reasoning_effort", "reasoning.effort"},
                                  {"messages", "input"},
                                  {"max_tokens", "max_output_tokens"}};
constexpr Field kOfInputs[] = {{"prompt", "input"}};
constexpr Field kOfPairs[] = {{"prompt", "documents"}};

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Finds the name in the message as a whole word: "prompt" is not found in "prompts". Returns npos when it is absent.
size_t PlaceOfWord(std::string_view message, std::string_view name) {
  for (size_t at = message.find(name); at != std::string_view::npos; at = message.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !IsOfWord(message[at - 1])) && (end == message.size() || !IsOfWord(message[end]))) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<Dialect> DialectOf(std::string_view path) {
  for (const Name& name : kDialectNames) {
    if (name.path == path) return name.dialect;
  }
  return std::nullopt;
}

bool IsOfMessages(std::string_view path) { return path == "/v1/messages" || path.starts_with("/v1/messages/"); }

ApiError InWordsOf(Dialect dialect, ApiError error) {
  if (error.code == kUnknownFieldCode) return error;
  std::span<const Field> fields;
  if (dialect == Dialect::kMessages) fields = kOfMessages;
  if (dialect == Dialect::kResponses) fields = kOfResponses;
  if (dialect == Dialect::kEmbeddings || dialect == Dialect::kClassify || dialect == Dialect::kPooling)
    fields = kOfInputs;
  if (dialect == Dialect::kRerank || dialect == Dialect::kScore) fields = kOfPairs;
  for (const Field& field : fields) {
    const bool whole = error.param == field.chat || error.param.starts_with(std::string(field.chat) + ".");
    if (!whole) continue;
    std::string message = error.what();
    const size_t at = PlaceOfWord(message, field.chat);
    if (at != std::string::npos) message.replace(at, field.chat.size(), field.here);
    ApiError renamed(error.status, message, std::string(field.here) + error.param.substr(field.chat.size()));
    renamed.code = error.code;
    renamed.retry_in_vain = error.retry_in_vain;
    return renamed;
  }
  return error;
}

}  // namespace quire
