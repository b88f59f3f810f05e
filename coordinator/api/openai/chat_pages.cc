#include "coordinator/api/openai/chat_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {

namespace {

/// Returns the tokens as a JSON list. Makes no JSON tree, which would take ten times the memory of the numbers.
std::string TokenList(const std::vector<TokenId>& tokens) { return fmt::format("[{}]", fmt::join(tokens, ",")); }

}  // namespace

int64_t ChatPages::Bytes(size_t body_bytes) const {
  constexpr int64_t kTokenBytes = 4 + 8;  // bytes of a token's id and of its text
  constexpr int64_t kCopies = 1 + 2;      // copies of the prompt: one with its marks, two in the answer
  const auto body = static_cast<int64_t>(body_bytes);
  return CallPreparer::WorkBytes(body_bytes) + (1 + kCopies) * body + kTokenBytes * max_model_len_;
}

std::string ChatPages::Render(const std::string& body, const std::stop_token& stop) const {
  const RequestBody json(body);
  const ChatPrompt prompt = preparer_.Render(json, Dialect::kChat, stop);
  const Json fields = {{"object", "chat.completion.render"},
                       {"model", preparer_.model_name()},
                       {"prompt", prompt.text},
                       {"count", prompt.tokens.size()},
                       {"max_model_len", max_model_len_}};
  std::string text = DumpJson(fields);
  text.pop_back();
  return text + R"(,"token_ids":)" + TokenList(prompt.tokens) + "}";
}

std::string ChatPages::Tokenize(const RequestBody& body, const std::stop_token& stop) const {
  const ChatPrompt prompt = preparer_.Render(body, Dialect::kChat, stop);
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":{}}})", prompt.tokens.size(), max_model_len_,
                     TokenList(prompt.tokens));
}

std::string ChatPages::CountTokens(const std::string& body, const std::stop_token& stop) const {
  const RequestBody json(body);
  const ChatPrompt prompt = preparer_.Render(json, Dialect::kMessages, stop);
  Json count = {{"input_tokens", prompt.tokens.size()}};
  if (prompt.unedited_tokens) count["context_management"] = {{"original_input_tokens", *prompt.unedited_tokens}};
  return DumpJson(count);
}

}  // namespace quire
