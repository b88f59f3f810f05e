#pragma once

#include <optional>
#include <string_view>

#include "coordinator/api/requests/api_error.h"

namespace quire {

/// In whose words a call comes and is answered. Inside there is one kind of chat: Messages and Responses are read as
/// the chat request that says the same. The last three generate nothing: they pool prompts.
enum class Dialect {
  kCompletions,  // OpenAI's /v1/completions
  kChat,         // OpenAI's /v1/chat/completions
  kMessages,     // Anthropic's /v1/messages
  kResponses,    // OpenAI's /v1/responses
  kEmbeddings,   // OpenAI's /v1/embeddings
  kRerank,       // Cohere's and Jina's /v1/rerank
  kScore,        // vLLM's /v1/score
};

/// The dialect of an endpoint that generates; nothing for others.
std::optional<Dialect> DialectOf(std::string_view path);

/// True for /v1/messages and what is below it: clients there know errors in Anthropic's form.
bool IsOfMessages(std::string_view path);

/// With the field at fault called as this dialect calls it.
ApiError InWordsOf(Dialect dialect, ApiError error);

}  // namespace quire
