// The part of CallPreparer that turns prompts into tokens.
#include <fmt/format.h>

#include <algorithm>

#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/http/api_error.h"
#include "coordinator/text/tokenizer/detokenizer.h"

namespace quire {

namespace {

/// Returns the bytes of the prompts that came as text, not as tokens.
size_t BytesOfPrompts(const GenerateCall& call) {
  size_t bytes = 0;
  for (const PromptInput& prompt : call.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) bytes += text->size();
  }
  for (const std::string& text : call.second_texts) bytes += text.size();
  return bytes;
}

constexpr size_t kMostEchoBytes = 16 << 20;  // texts of all prompts of a call, in an answer that echoes them

/// Throws ApiError for prompts whose texts are longer than an answer may echo. A few token ids may stand for long
/// texts.
void CheckEcho(const std::vector<std::vector<TokenId>>& prompts, const Tokenizer& tokenizer) {
  size_t bytes = 0;
  for (const auto& prompt : prompts) {
    for (const TokenId token : prompt) bytes += tokenizer.Bytes(token).size();
  }
  if (bytes > kMostEchoBytes)
    JsonFields::Refuse("echo",
                       fmt::format("is for prompts of at most {} bytes of text; these have {}", kMostEchoBytes, bytes));
}

/// Returns the number of tokens to which a prompt is truncated at most (truncate_prompt_tokens).
size_t TokensKept(const GenerateCall& call, const RequestLimits& limits) {
  const int max_model_len = limits.max_model_len;
  if (call.truncate_prompt_tokens == 0) return SIZE_MAX;
  if (call.truncate_prompt_tokens > 0) return static_cast<size_t>(call.truncate_prompt_tokens);
  if (limits.only_pools) return static_cast<size_t>(max_model_len);
  const int answer = std::clamp(call.max_tokens.value_or(call.default_max_tokens()), 1, std::max(1, max_model_len / 2));
  return static_cast<size_t>(std::max(1, max_model_len - answer));
}

}  // namespace

/// Returns the tokens of a pair (query and document), with the model's special text around it. A pair longer than
/// `most` tokens loses its end. Text in the pair never becomes a control token.
std::vector<TokenId> CallPreparer::EncodePair(const std::string& pair, size_t most, const EncodeBounds& bounds) const {
  std::vector<TokenId> tokens = tokenizer_.Encode(MarkedText(pair, MarkedText::kFromUser), bounds);
  const size_t around = before_pair_.size() + after_pair_.size();
  if (most <= around)
    JsonFields::Refuse("truncate_prompt_tokens", fmt::format("must be above {}, the tokens around a pair", around));
  tokens.resize(std::min(tokens.size(), most - around));
  tokens.insert(tokens.begin(), before_pair_.begin(), before_pair_.end());
  tokens.insert(tokens.end(), after_pair_.begin(), after_pair_.end());
  return tokens;
}

/// Returns the tokens of a prompt. An encoder's prompt is truncated to `most` tokens: the text loses its end, and the
/// special tokens around the text stay.
std::vector<TokenId> CallPreparer::EncodeText(const GenerateCall& call, const std::string& text, size_t most,
                                              const EncodeBounds& bounds) const {
  std::vector<TokenId> tokens = tokenizer_.EncodePrompt(text, call.add_special_tokens, bounds);
  if (tokens.size() <= most || !options_.pooling.encoder || !call.add_special_tokens) return tokens;
  const TokenizerData& data = tokenizer_.data();
  const size_t around = data.prefix.size() + data.suffix.size();
  if (most <= around)
    JsonFields::Refuse("truncate_prompt_tokens", fmt::format("must be above {}, the tokens around a text", around));
  tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(most - data.suffix.size()),
               tokens.end() - static_cast<ptrdiff_t>(data.suffix.size()));
  return tokens;
}

/// Encodes pairs of texts that the model reads together. A pair has at most `most` tokens, with the tokens around its
/// texts. Control tokens spelt out in the texts become tokens, as in HF transformers.
void CallPreparer::EncodeJoinedPairs(PreparedCall& prepared, size_t most, const EncodeBounds& bounds) const {
  GenerateCall& call = prepared.call;
  const std::string* latest = nullptr;  // a query is often paired with many documents, and is then encoded once
  std::vector<TokenId> query;
  for (size_t i = 0; i < call.prompts.size(); ++i) {
    const auto& text = std::get<std::string>(call.prompts[i]);
    if (latest == nullptr || *latest != text) query = tokenizer_.EncodePrompt(text, false, bounds);
    latest = &text;
    std::vector<TokenId> document = tokenizer_.EncodePrompt(call.second_texts[i], false, bounds);
    const Tokenizer::JoinedPair empty = tokenizer_.JoinPair({}, {});
    if (most <= empty.tokens.size())
      JsonFields::Refuse("truncate_prompt_tokens",
                         fmt::format("must be above {}, the tokens around a pair", empty.tokens.size()));
    Tokenizer::JoinedPair pair = tokenizer_.JoinPair(query, std::move(document), most);
    prepared.prompts.push_back(std::move(pair.tokens));
    call.second_starts.push_back(pair.second);
  }
  call.second_texts.clear();
}

void CallPreparer::EncodePrompts(PreparedCall& prepared, const MarkedText& chat, const std::stop_token& stop) const {
  const GenerateCall& call = prepared.call;
  const bool truncates = call.truncate_prompt_tokens != 0;  // true: the prompt is cut; the body's size bounds the work
  const size_t most_tokens = truncates ? SIZE_MAX : static_cast<size_t>(options_.request.max_model_len);
  // All prompts of the call share one time limit, so many short prompts get no more time than one long prompt.
  SplitBudget splitting(BytesOfPrompts(call), {}, stop);
  const EncodeBounds bounds{stop, most_tokens, &splitting};
  const size_t kept = TokensKept(call, options_.request);
  try {
    if (call.chat) prepared.prompts.push_back(tokenizer_.Encode(chat, {stop, most_tokens}));
    const bool joined = !call.second_texts.empty();
    if (joined) EncodeJoinedPairs(prepared, kept, bounds);
    for (const PromptInput& prompt : call.prompts) {
      if (joined) break;
      if (const auto* text = std::get_if<std::string>(&prompt)) {
        if (call.truncate_prompt_tokens == 0) CheckSize(*text, "prompt");
        prepared.prompts.push_back(call.framed ? EncodePair(*text, kept, bounds)
                                               : EncodeText(call, *text, kept, bounds));
      } else {
        prepared.prompts.push_back(std::get<std::vector<TokenId>>(prompt));
      }
    }
  } catch (const TooManyTokens&) {
    throw PromptTooLong(call);
  }
  for (auto& prompt : prepared.prompts) {
    if (prompt.size() > kept && options_.pooling.encoder) prompt.resize(kept);
    if (prompt.size() > kept) prompt.erase(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(kept));
    if (prompt.size() > static_cast<size_t>(options_.request.max_model_len) && options_.pooling.encoder)
      throw PromptTooLong(call);
    if (prompt.empty()) throw ApiError(400, "the prompt is empty", FieldOf(call));
    RefuseUnknown(prompt, FieldOf(call));
    prepared.prompt_tokens += prompt.size();
    prepared.longest_prompt = std::max(prepared.longest_prompt, prompt.size());
  }
  if (!call.echo || call.num_top_logprobs >= 0) return;
  CheckEcho(prepared.prompts, tokenizer_);
  for (const auto& prompt : prepared.prompts)
    prepared.echo.push_back(Decode(tokenizer_, prompt, call.skip_special_tokens));
}

}  // namespace quire
