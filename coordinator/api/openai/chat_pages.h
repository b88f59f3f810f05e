#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "coordinator/api/openai/call_preparer.h"

namespace quire {

/// What a chat request's prompt is, without an answer to it: from the text of a body to that of the page. Their cost
/// grows with the body and with what the template makes of it. May be used by several threads. Throw ApiError, Error
/// and Stopped.
class ChatPages {
 public:
  /// The preparer outlives this object.
  ChatPages(const CallPreparer& preparer, int max_model_len) : preparer_(preparer), max_model_len_(max_model_len) {}

  /// /v1/chat/completions/render: the prompt's text and tokens. The text shows control tokens as they are spelled.
  std::string Render(const std::string& body, const std::stop_token& stop) const;
  /// /tokenize of messages.
  std::string Tokenize(const RequestBody& body, const std::stop_token& stop) const;

  /// /v1/messages/count_tokens.
  std::string CountTokens(const std::string& body, const std::stop_token& stop) const;

  /// What the work on a body of that size and its answer may hold, the body counted in, if the template makes no more
  /// of it than there is.
  int64_t Bytes(size_t body_bytes) const;

 private:
  const CallPreparer& preparer_;
  int max_model_len_;
};

}  // namespace quire
