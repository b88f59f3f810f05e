#pragma once

#include <optional>
#include <string_view>

#include "coordinator/http/api_error.h"

namespace quire {

/// The API in which a call comes and is answered. A Messages or Responses request is translated into the equivalent
/// chat request. The dialects from kEmbeddings on generate nothing; they pool prompts.
enum class Dialect {
  kCompletions,  // OpenAI's /v1/completions
  kChat,         // OpenAI's /v1/chat/completions
  kMessages,     // Anthropic's /v1/messages
  kResponses,    // OpenAI's /v1/responses
  kEmbeddings,   // OpenAI's /v1/embeddings
  kRerank,       // Cohere's and Jina's /v1/rerank
  kScore,        // vLLM's /v1/score
  kClassify,     // vLLM's /classify
  kPooling,      // vLLM's /pooling
};

/// Returns the dialect of the path of a generating or pooling endpoint; nullopt for other paths.
std::optional<Dialect> DialectOf(std::string_view path);

/// True for /v1/messages and the paths below it. Errors of these paths have Anthropic's form.
bool IsOfMessages(std::string_view path);

/// Replaces, in an error, the chat request's name of a field by this dialect's name. An error about an unknown field is
/// returned unchanged, because it names the field that was sent.
ApiError InWordsOf(Dialect dialect, ApiError error);

}  // namespace quire
