#pragma once

#include <memory>
#include <vector>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/api/requests/generate_call.h"
#include "coordinator/core/request_sink.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Makes the sink of one request, which turns tokens into text on the engine's thread and puts the text into `events`.
/// The request's choices are numbered from `first_choice` on. `tokenizer` must outlive the sink; `call` and `prompt`
/// need not.
std::unique_ptr<RequestSink> MakeTextSink(const Tokenizer& tokenizer, const GenerateCall& call,
                                          const std::vector<TokenId>& prompt, int first_choice,
                                          std::shared_ptr<EventQueue> events);

}  // namespace quire
