#include "coordinator/api/openai/answer_memory.h"

#include <algorithm>

#include "coordinator/http/piecewise_text.h"

namespace quire {

namespace {

constexpr int64_t kTextBytesPerToken = 16;  // twice a token's usual size, doubled because a text grows by doubling
constexpr int64_t kTokenBytes = 8;          // bytes of a token id in a list that grows by doubling
constexpr int64_t kBeamTokenBytes = 32;     // bytes of a token in the running, the next and the finished beam together
constexpr int64_t kChoiceBytes = 512;
constexpr int64_t kRowBytes = 192;         // bytes of the part of an answer around the vector of one token
constexpr int64_t kParserBytes = 8 << 10;  // most text that a choice's parser holds; calls may hold more
constexpr int64_t kListBytes = 24;         // bytes that an allocation takes besides its content

/// Returns the bytes of a reported token with `num_top` alternatives.
int64_t TokenRecordBytes(int num_top) {
  const auto top = static_cast<int64_t>(sizeof(ReportedToken::top[0])) * num_top;
  return static_cast<int64_t>(sizeof(ReportedToken)) + top + kListBytes;
}

/// True when nothing is sent before the whole answer exists: for answers that are not streamed, and for beam search,
/// where the answer is chosen only at the end.
bool ComesAtOnce(const GenerateCall& call) { return !call.stream || call.beams.has_value(); }

int64_t RecordBytes(const std::deque<ReportedToken>& tokens) {
  if (tokens.empty()) return 0;
  return static_cast<int64_t>(tokens.size()) * TokenRecordBytes(static_cast<int>(tokens.back().top.size()));
}

int64_t PredictionBytes(const GenerateCall& call) {
  const size_t tokens = call.prediction_tokens == nullptr ? 0 : call.prediction_tokens->size();
  return static_cast<int64_t>(tokens * sizeof(TokenId));
}

}  // namespace

int64_t TextBytes(const PreparedCall& prepared, int max_tokens) {
  const GenerateCall& call = prepared.call;
  const int64_t choices = int64_t{prepared.num_prompts} * call.num_delivered();
  const int64_t of_choice = int64_t{max_tokens} * kTextBytesPerToken;
  const int64_t parsed = call.shape.is_plain() ? 0 : choices * std::min(of_choice, kParserBytes);
  // A stream of /v1/responses repeats the whole text twice in its last events.
  if (call.stream && prepared.terms) return parsed + 2 * of_choice;
  return parsed + (ComesAtOnce(call) ? choices * of_choice : 0);
}

int64_t KeptBytes(const GenerateCall& call) {
  return call.tools_bytes + static_cast<int64_t>(call.sampling.grammar.text.size()) + PredictionBytes(call);
}

int64_t DocumentBytes(const PoolingTerms& terms) {
  int64_t bytes = 0;
  for (const std::string& document : terms.documents) bytes += static_cast<int64_t>(document.size());
  return bytes;
}

int64_t ReservedBytes(const PreparedCall& prepared) {
  int64_t bytes = prepared.terms ? prepared.terms->bytes() : 0;
  // An echoed text exists as a JSON tree and as the tree's text.
  for (const std::string& echo : prepared.echo) bytes += int64_t{1 + kEscapedBytes} * static_cast<int64_t>(echo.size());
  return bytes;
}

int64_t HeldBytes(const PreparedCall& prepared, int max_tokens) {
  const GenerateCall& call = prepared.call;
  const auto longest = static_cast<int64_t>(prepared.longest_prompt);
  const int64_t delivered = int64_t{prepared.num_prompts} * call.num_delivered();
  const int64_t of_prompts = prepared.pooling ? static_cast<int64_t>(prepared.prompt_tokens)  // maybe of thousands
                                              : prepared.num_sampled() * longest;
  int64_t bytes = (of_prompts + int64_t{prepared.num_sampled()} * max_tokens) * kTokenBytes;
  if (call.beams) bytes += int64_t{prepared.num_sampled()} * max_tokens * kBeamTokenBytes;
  bytes += delivered * kChoiceBytes;
  if (prepared.pooling) {  // vectors exist twice: from the engine, and in the answer
    bytes += 2 * prepared.vector_bytes;
    if (prepared.pooling->row > 0) bytes += static_cast<int64_t>(prepared.prompt_tokens) * kRowBytes;
    for (const auto& prompt : prepared.pooling->prompts) bytes += static_cast<int64_t>(prompt.size() * sizeof(TokenId));
    // Counts the request's documents three times: as sent, and, for answers that repeat them, as a JSON tree and as its
    // text.
    bytes += 3 * DocumentBytes(*prepared.pooling);
    return bytes + std::min(bytes, kSendBytes);
  }
  for (const std::string& echo : prepared.echo) bytes += static_cast<int64_t>(echo.size());
  bytes += KeptBytes(call) + 2 * static_cast<int64_t>(call.sampling.grammar.text.size()) * prepared.num_prompts;
  bytes += PredictionBytes(call) * prepared.num_prompts;
  if (prepared.terms) bytes += prepared.terms->bytes();
  bytes += ReservedBytes(prepared);
  if (call.num_scored_top() >= 0)
    bytes += prepared.num_prompts * longest * (TokenRecordBytes(call.num_scored_top()) + kTextBytesPerToken);
  if (call.return_token_ids) bytes += prepared.num_prompts * longest * kTokenBytes;
  if (!ComesAtOnce(call)) return bytes + static_cast<int64_t>(EventQueue::kFreeBytes);
  if (call.num_top_logprobs >= 0 || call.return_token_ids) {
    bytes += delivered * max_tokens * TokenRecordBytes(std::max(0, call.num_top_logprobs));
  }
  return bytes + std::min(bytes, kSendBytes);
}

int64_t RecordBytes(const std::vector<AnswerChoice>& choices) {
  int64_t bytes = 0;
  const AnswerPrompt* prompt = nullptr;  // the prompt counted last
  for (const AnswerChoice& choice : choices) {
    bytes += kChoiceBytes + static_cast<int64_t>(choice.text.capacity() + choice.reasoning.capacity()) +
             static_cast<int64_t>(choice.pooled.capacity() * sizeof(float)) + RecordBytes(choice.tokens);
    for (const AnswerCall& call : choice.calls) bytes += kChoiceBytes + static_cast<int64_t>(call.arguments.capacity());
    if (choice.prompt == nullptr || choice.prompt.get() == prompt) continue;
    prompt = choice.prompt.get();
    bytes += static_cast<int64_t>(prompt->text.capacity()) + RecordBytes(prompt->tokens);
  }
  return bytes;
}

}  // namespace quire
