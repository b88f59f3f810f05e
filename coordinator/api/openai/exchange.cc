#include "coordinator/api/openai/exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {

int64_t DataPort::Exchange::PromptBytes() const {
  size_t bytes = 0;
  for (const std::string& text : echo) bytes += text.size();
  for (const auto& ids : prompt_ids) bytes += 2 * sizeof(TokenId) * ids.size();
  return static_cast<int64_t>(bytes);
}

Json DataPort::Exchange::OpeningChunk(size_t choice) const {
  Json chunk = builder.Chunk(static_cast<int>(choice), call.chat, EchoOf(choice), {}, false, std::nullopt);
  if (prompt_ids.empty()) return chunk;
  Json& place = call.chat ? chunk : chunk["choices"][0];
  place["prompt_token_ids"] = prompt_ids[choice / static_cast<size_t>(call.num_delivered())];
  return chunk;
}

bool DataPort::Exchange::HoldText(int64_t bytes) {
  if (bytes <= text_bytes) return true;
  if (memory.Resize(memory.bytes() + bytes) != ByteBudget::Verdict::kTaken) return false;
  text_bytes += bytes;
  return true;
}

ByteBudget::Verdict DataPort::Exchange::HoldMade(size_t bytes) {
  const int64_t wanted = std::max(static_cast<int64_t>(bytes), kept_bytes);
  const ByteBudget::Verdict verdict = memory.Resize(memory.bytes() - made_bytes + wanted);
  if (verdict == ByteBudget::Verdict::kTaken) made_bytes = wanted;
  return verdict;
}

bool DataPort::Exchange::HoldEvent(const CallEvent& event) {
  const int64_t held = form ? form->held_bytes() : 0;
  const int64_t repeated = held == 0 ? 0 : 2 * (held + static_cast<int64_t>(event.text.size()));
  return HoldText(repeated + waiting_bytes);
}

AnswerParts DataPort::Exchange::PartsOf(const CallEvent& event) {
  ChatChoice& choice = choices[static_cast<size_t>(event.choice)];
  waiting_bytes -= static_cast<int64_t>(choice.held_bytes());
  AnswerParts parts = choice.OnText(event.text, event.words);
  if (choice.was_thinking()) usage.reasoning_tokens += event.num_tokens;
  if (event.finished) {
    AnswerParts last = choice.OnEnd(*event.finished == FinishReason::kLength);
    std::ranges::move(last, std::back_inserter(parts));
  }
  waiting_bytes += static_cast<int64_t>(choice.held_bytes());
  return parts;
}

void DataPort::Exchange::Add(const CallEvent& event, AnswerChoice& to) {
  if (!call.chat) {
    to.text += event.text;
    return;
  }
  for (AnswerPart& part : PartsOf(event)) {
    switch (part.kind) {
      case AnswerPart::kContent:
        to.text += part.text;
        break;
      case AnswerPart::kReasoning:
        to.reasoning += part.text;
        break;
      case AnswerPart::kCall:
        to.calls.push_back(
            {ToolCallId(call.shape.format.tools, id, event.choice, part.call), std::move(part.text), ""});
        break;
      case AnswerPart::kArguments:
        to.calls.back().arguments += part.text;
        break;
      case AnswerPart::kBroken:
        to.calls.pop_back();
        to.text += part.text;
        break;
    }
  }
}

std::string DataPort::Exchange::ChatChunks(const CallEvent& event) {
  const bool with_logprobs = call.num_top_logprobs >= 0;
  std::vector<ReportedToken> tokens = event.tokens;
  std::string text;
  for (const AnswerPart& part : PartsOf(event)) {
    const std::string call_id = ToolCallId(call.shape.format.tools, id, event.choice, part.call);
    text += ChunkText(builder.PartChunk(event.choice, part, call_id, tokens, with_logprobs));
    tokens.clear();
  }
  if (!tokens.empty()) text += ChunkText(builder.Chunk(event.choice, false, "", tokens, with_logprobs, std::nullopt));
  if (!event.finished) return text;
  const bool calls = choices[static_cast<size_t>(event.choice)].called() && event.finished == FinishReason::kStop;
  return text + ChunkText(calls ? builder.CallsEndChunk(event.choice)
                                : builder.Chunk(event.choice, false, "", {}, false, event.finished));
}

}  // namespace quire
