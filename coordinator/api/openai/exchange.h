#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/api/openai/answer_form.h"
#include "coordinator/api/openai/call_slot.h"
#include "coordinator/api/openai/chat_choice.h"
#include "coordinator/api/openai/data_port.h"
#include "coordinator/api/openai/openai_response.h"

namespace quire {

/// One call, its prepared request, and the connection to which its answer goes.
struct DataPort::Exchange {
  /// Returns a server-sent event.
  static std::string EventText(const Json& json) { return "data: " + DumpJson(json) + "\n\n"; }
  /// Returns the event of one chunk. If the client asked for usage, the chunk has "usage": null; with continuous_usage
  /// the chunk has the current usage.
  std::string ChunkText(Json chunk) const {
    if (call.include_usage) chunk["usage"] = call.continuous_usage ? usage.ToJson() : Json();
    return EventText(chunk);
  }

  /// Returns the text with which a choice begins before its first token (echo); "" without echo.
  std::string EchoOf(size_t choice) const {
    return echo.empty() ? "" : echo[choice / static_cast<size_t>(call.num_delivered())];
  }
  /// Makes the charge for the answer's texts cover `bytes` bytes. If the charge is too small, adds `bytes` bytes to it,
  /// more than needed, so that later calls seldom need to add any. Returns false when there is no memory left.
  bool HoldText(int64_t bytes);
  /// Sets the charge for texts that are made and not sent yet to the larger of `bytes` and kept_bytes.
  ByteBudget::Verdict HoldMade(size_t bytes);
  /// Charges the memory for texts that the stream's last events will repeat, and for text that parsers hold back.
  /// Returns false when there is no memory left.
  bool HoldEvent(const CallEvent& event);
  /// Parses an event's text for a chat choice, and counts tokens of thoughts.
  AnswerParts PartsOf(const CallEvent& event);
  /// Adds an event's text and counts to the record of its choice. A tool call that proves broken becomes text.
  void Add(const CallEvent& event, AnswerChoice& to);
  /// Makes one chunk for each part of a chat event, one for tokens without a part, and one for the end of the choice.
  std::string ChatChunks(const CallEvent& event);

  /// Returns the most bytes that a choice's first chunk takes while it is made.
  size_t OpeningBytes(size_t choice) const {
    constexpr size_t kBytesPerId = 24;  // bytes of a token id in a JSON tree and as text
    const size_t prompt = choice / static_cast<size_t>(call.num_delivered());
    const size_t of_echo = echo.empty() ? 0 : (1 + kEscapedBytes) * echo[prompt].size();
    return of_echo + (prompt_ids.empty() ? 0 : kBytesPerId * prompt_ids[prompt].size());
  }
  /// Returns the bytes of the prompts that the answer repeats: their texts, and their ids twice, because the prompts'
  /// records hold the ids, too.
  int64_t PromptBytes() const;
  /// Returns the first chunk of a choice's stream.
  Json OpeningChunk(size_t choice) const;

  ModelDesk& desk;  // belongs to the call's model
  const GenerateCall& call;
  const std::string share;  // account that is charged for work on the pool (HttpRequest::share)
  std::string id;           // the answer's id, without the prefix of its kind
  ResponseBuilder builder;
  Usage usage;
  std::vector<std::string> echo;                 // text of each prompt, or empty
  std::vector<std::vector<TokenId>> prompt_ids;  // ids of each prompt, or empty
  int64_t text_bytes;                            // bytes charged for texts
  HttpResponder& responder;
  ByteBudget::Lease& memory;
  Slot& slot;
  std::vector<ChatChoice> choices;             // parsers of a chat's choices; empty for other calls
  std::unique_ptr<AnswerForm> form = nullptr;  // null: OpenAI's completions
  std::optional<PoolingTerms> pooling = {};    // terms of calls that pool prompts
  int64_t made_bytes = 0;                      // bytes charged by HoldMade
  int64_t kept_bytes = 0;                      // bytes of made_bytes that stay charged for later texts
  int64_t waiting_bytes = 0;                   // bytes of text that `choices` hold back
};

}  // namespace quire
