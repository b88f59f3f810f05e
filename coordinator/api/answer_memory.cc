#include "coordinator/api/answer_memory.h"

#include <algorithm>

namespace quire {

namespace {

constexpr int64_t kTextBytesPerToken = 16;  // twice what is usual, and again twice because a text grows by doubling
constexpr int64_t kTokenBytes = 8;          // in a list that grows by doubling
constexpr int64_t kChoiceBytes = 512;
constexpr int64_t kListBytes = 24;  // of an allocation, and its rounding

}  // namespace

int64_t TextBytes(const PreparedCall& prepared, int max_tokens) {
  // Events at the end of such a stream repeat the text, one after the other.
  if (prepared.call.stream && prepared.terms) return 2 * int64_t{max_tokens} * kTextBytesPerToken;
  if (prepared.call.stream) return 0;
  return int64_t{prepared.num_prompts} * prepared.call.num_delivered() * max_tokens * kTextBytesPerToken;
}

int64_t HeldBytes(const PreparedCall& prepared, int max_tokens) {
  const GenerateCall& call = prepared.call;
  const auto longest = static_cast<int64_t>(prepared.longest_prompt);
  const int64_t delivered = int64_t{prepared.num_prompts} * call.num_delivered();
  int64_t bytes = prepared.num_sampled() * (longest + max_tokens) * kTokenBytes;
  bytes += delivered * (kChoiceBytes + static_cast<int64_t>(prepared.echo.size()));
  bytes += 2 * static_cast<int64_t>(call.sampling.grammar.text.size()) * prepared.num_prompts;
  if (prepared.terms) bytes += 2 * prepared.terms->bytes();  // and in the answer
  if (call.stream) return bytes + static_cast<int64_t>(EventQueue::kFreeBytes);
  if (call.num_top_logprobs >= 0) {
    const auto top = static_cast<int64_t>(sizeof(ReportedToken::top[0])) * call.num_top_logprobs;
    bytes += delivered * max_tokens * (static_cast<int64_t>(sizeof(ReportedToken)) + top + kListBytes);
  }
  return bytes + std::min(bytes, kSendBytes);
}

int64_t RecordBytes(const std::vector<AnswerChoice>& choices) {
  int64_t bytes = 0;
  for (const AnswerChoice& choice : choices) {
    bytes += kChoiceBytes + static_cast<int64_t>(choice.text.capacity() + choice.reasoning.capacity());
    for (const AnswerCall& call : choice.calls) bytes += kChoiceBytes + static_cast<int64_t>(call.arguments.capacity());
    if (choice.tokens.empty()) continue;
    const size_t top = choice.tokens.front().top.size() * sizeof(ReportedToken::top[0]);
    bytes += static_cast<int64_t>(choice.tokens.size() * (sizeof(ReportedToken) + top)) +
             static_cast<int64_t>(choice.tokens.size()) * kListBytes;
  }
  return bytes;
}

}  // namespace quire
