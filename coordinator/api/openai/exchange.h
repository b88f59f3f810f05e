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

/// One call and where its answer goes.
struct DataPort::Exchange {
  /// A server-sent event.
  static std::string EventText(const Json& json) { return "data: " + DumpJson(json) + "\n\n"; }
  /// The same for a chunk of a choice: each carries usage, null but where it is wanted all along, when usage was asked
  /// for.
  std::string ChunkText(Json chunk) const {
    if (call.include_usage) chunk["usage"] = call.continuous_usage ? usage.ToJson() : Json();
    return EventText(chunk);
  }

  /// What a choice's text begins with as a whole, before any of it is drawn.
  std::string EchoOf(size_t choice) const {
    return echo.empty() ? "" : echo[choice / static_cast<size_t>(call.num_delivered())];
  }
  /// What is charged for texts grows with them; false: there is no memory for so much.
  bool HoldText(int64_t bytes);
  /// What texts of the answer that are made and not sent yet take from now on; what is kept for later ones stays.
  ByteBudget::Verdict HoldMade(size_t bytes);
  /// The same as HoldText for a stream: what its ending repeats, and what waits until it is known what it is.
  bool HoldEvent(const CallEvent& event);
  /// What an event brings of a chat's choice; counts tokens of thoughts.
  AnswerParts PartsOf(const CallEvent& event);
  /// Puts what an event brings to the choice that it is of. A call that turned out to be none is text.
  void Add(const CallEvent& event, AnswerChoice& to);
  /// A chunk for each part that a chat's event brings.
  std::string ChatChunks(const CallEvent& event);

  /// The most that the first chunk of a choice's stream takes while it is made.
  size_t OpeningBytes(size_t choice) const {
    constexpr size_t kBytesPerId = 24;  // in a tree of JSON, and spelled
    const size_t prompt = choice / static_cast<size_t>(call.num_delivered());
    const size_t of_echo = echo.empty() ? 0 : (1 + kEscapedBytes) * echo[prompt].size();
    return of_echo + (prompt_ids.empty() ? 0 : kBytesPerId * prompt_ids[prompt].size());
  }
  /// What is kept of the prompts for an answer that repeats them: their ids twice, for its records have them, too.
  int64_t PromptBytes() const;
  /// The first chunk of a choice's stream.
  Json OpeningChunk(size_t choice) const;

  const GenerateCall& call;
  const std::string share;  // of the work beside the workers
  std::string id;           // of the answer, without what says its kind
  ResponseBuilder builder;
  Usage usage;
  std::vector<std::string> echo;                 // of every prompt, or none
  std::vector<std::vector<TokenId>> prompt_ids;  // likewise
  int64_t text_bytes;                            // charged for texts
  HttpResponder& responder;
  ByteBudget::Lease& memory;
  Slot& slot;
  std::vector<ChatChoice> choices;             // of a chat
  std::unique_ptr<AnswerForm> form = nullptr;  // null: OpenAI's completions
  std::optional<PoolingTerms> pooling = {};    // of calls that generate nothing
  int64_t made_bytes = 0;                      // charged for HoldMade
  int64_t kept_bytes = 0;                      // of those, for texts to come
  int64_t waiting_bytes = 0;                   // held by `choices`
};

}  // namespace quire
