#include "coordinator/api/openai/call_preparer.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "coordinator/api/openai/continued_message.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/messages/messages_request.h"
#include "coordinator/http/api_error.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/tokenizer/detokenizer.h"

namespace quire {

namespace {

/// Returns a counter that bounds the texts made while this conversation is adapted and rendered.
TextGrowth GrowthOf(const Conversation& conversation, const std::stop_token& stop) {
  return {"messages",
          TextBytes(conversation.messages) + TextBytes(conversation.tools) + TextBytes(conversation.documents), stop};
}

constexpr size_t kMaxBadWordTokens = 1024;

/// Returns a watch for one rendering of a template: it counts every text in `growth`, and stops the rendering on
/// `stop`. `growth` and `stop` must outlive the rendering.
RenderWatch WatchOf(TextGrowth& growth, const std::stop_token& stop) {
  return {.cancelled = [&stop] { return stop.stop_requested(); },
          .makes = [&growth](size_t bytes) { growth.Add(bytes); }};
}

/// Sets the size of the answer's vectors, and the members of PoolingTerms that depend on the prompts' tokens.
void SetVectors(const PoolingOptions& options, PreparedCall& prepared) {
  PoolingTerms& terms = *prepared.pooling;
  const int64_t numbers = terms.row > 0 ? static_cast<int64_t>(prepared.prompt_tokens) * terms.row
                                        : int64_t{prepared.num_prompts} * options.hidden;
  prepared.vector_bytes = numbers * static_cast<int64_t>(sizeof(float));
  if (terms.opening || terms.closing) terms.prompts = prepared.prompts;
}

}  // namespace

const char* CallPreparer::FieldOf(const GenerateCall& call) { return call.chat ? "messages" : "prompt"; }

CallPreparer::CallPreparer(Options options, const Tokenizer& tokenizer, const ChatTemplate* chat)
    : options_(std::move(options)), tokenizer_(tokenizer), chat_(chat) {
  if (chat != nullptr) fit_.emplace(*chat, tokenizer, options_.answer_format);
  if (!options_.pooling.by_answer) return;
  before_pair_ = tokenizer.EncodePrompt(kBeforePair, false);
  after_pair_ = tokenizer.EncodePrompt(kAfterPair, false);
}

ChatPrompt CallPreparer::Render(const RequestBody& body, Dialect dialect, const std::stop_token& stop) const {
  GenerateCall call = dialect == Dialect::kMessages ? ParseMessagesRequest(body, options_.request, false)
                                                    : ParseChatRequest(body, options_.request);
  FindModel(call);
  const OrderedJson edits = EditContext(call, stop);
  MarkedText text = RenderChat(call, stop);
  try {
    ChatPrompt prompt;
    prompt.tokens = tokenizer_.Encode(text, {stop, static_cast<size_t>(options_.request.max_model_len)});
    prompt.text = std::move(text.text);
    if (edits.is_array()) {
      prompt.unedited_tokens = prompt.tokens.size();
      for (const OrderedJson& edit : edits) *prompt.unedited_tokens += edit["cleared_input_tokens"].get<size_t>();
    }
    return prompt;
  } catch (const TooManyTokens&) {
    throw PromptTooLong(call);
  }
}

void CallPreparer::Read(const std::string& body, Dialect dialect, const FindKept& find, PreparedCall& prepared) const {
  const RequestBody json(body);
  const RequestLimits& limits = options_.request;
  switch (dialect) {
    case Dialect::kCompletions:
      prepared.call = ParseCompletionRequest(json, limits);
      break;
    case Dialect::kChat:
      prepared.call = ParseChatRequest(json, limits);
      break;
    case Dialect::kMessages:
      prepared.call = ParseMessagesRequest(json, limits, true);
      break;
    case Dialect::kResponses:
      prepared.call = ParseResponsesRequest(json, limits, find, prepared.terms.emplace());
      break;
    case Dialect::kEmbeddings:
      prepared.call = ParseEmbeddingRequest(json, limits, options_.pooling, prepared.pooling.emplace());
      break;
    case Dialect::kRerank:
      prepared.call = ParseRerankRequest(json, limits, options_.pooling, prepared.pooling.emplace());
      break;
    case Dialect::kScore:
      prepared.call = ParseScoreRequest(json, limits, options_.pooling, prepared.pooling.emplace());
      break;
    case Dialect::kClassify:
      prepared.call = ParseClassifyRequest(json, limits, options_.pooling, prepared.pooling.emplace());
      break;
    case Dialect::kPooling:
      prepared.call = ParsePoolingRequest(json, limits, options_.pooling, prepared.pooling.emplace());
      break;
  }
  if (!prepared.pooling && !options_.pooling.no_answers.empty()) throw ApiError(400, options_.pooling.no_answers);
  FindModel(prepared.call);
}

PreparedCall CallPreparer::Prepare(const std::string& body, Dialect dialect, const FindKept& find, int room,
                                   const std::stop_token& stop) const {
  PreparedCall prepared;
  Read(body, dialect, find, prepared);
  GenerateCall& call = prepared.call;
  prepared.num_prompts = call.chat ? 1 : static_cast<int>(call.prompts.size());
  if (prepared.num_sampled() > options_.most_choices) {
    throw ApiError(400,
                   fmt::format("{} prompts with {} choices each are {} sequences; at most {} may ever wait and run at "
                               "once here (--max-num-queued-reqs, --max-num-seqs)",
                               prepared.num_prompts, call.best_of, prepared.num_sampled(), options_.most_choices),
                   prepared.pooling        ? FieldOf(call)
                   : call.best_of > call.n ? "best_of"
                                           : "n");
  }
  if (prepared.num_sampled() > room) return prepared;
  if (call.chat) prepared.applied_edits = EditContext(call, stop);
  const MarkedText text = call.chat ? RenderChat(call, stop) : MarkedText();
  FindBadWords(call, stop);
  EncodePrediction(call, stop);
  EncodePrompts(prepared, text, stop);
  if (prepared.pooling) SetVectors(options_.pooling, prepared);
  call.prompts.clear();
  call.prompts.shrink_to_fit();
  call.conversation = Conversation();
  call.tools = ToolUse();  // the answer's shape holds the tools now
  return prepared;
}

void CallPreparer::FindModel(GenerateCall& call) const {
  if (call.model.empty() || call.model == options_.model_name) return;
  if (std::ranges::count(options_.aliases, call.model) > 0) return;
  if (options_.adapters != nullptr) call.adapter = options_.adapters->Find(call.model);
  if (call.adapter != nullptr) return;
  throw ApiError(
      404, "the model \"" + call.model.substr(0, 100) + "\" is not served here; GET /v1/models lists what is", "model");
}

/// Throws ApiError for a text whose length alone proves that it has too many tokens. Called before the text is
/// tokenised.
void CallPreparer::CheckSize(std::string_view text, const char* field) const {
  if (!tokenizer_.SurelyExceeds(text, static_cast<size_t>(options_.request.max_model_len))) return;
  throw ContextLengthError(options_.request.max_model_len,
                           fmt::format("a prompt of {} bytes has more: shorten it", text.size()), field);
}

/// Applies the request's context edits. Returns the list of edits made; null when the request asks for none, or when
/// the model has no chat template.
OrderedJson CallPreparer::EditContext(GenerateCall& call, const std::stop_token& stop) const {
  if (!call.context_edits.asked || chat_ == nullptr) return nullptr;
  const auto count = [&](const OrderedJson& messages) {
    GenerateCall edited;
    edited.conversation = call.conversation;
    edited.conversation.messages = messages;
    edited.tools = call.tools;
    edited.hints = call.hints;
    TextGrowth growth = GrowthOf(edited.conversation, stop);
    fit_->FitConversation(edited, growth);
    const MarkedText text = chat_->Render(edited.conversation, WatchOf(growth, stop));
    // Before its edits a conversation may be longer than the context, so only the body's size bounds the work.
    return static_cast<int64_t>(tokenizer_.Encode(text, {stop, SIZE_MAX}).size());
  };
  return ApplyContextEdits(call.context_edits, call.conversation.messages, count);
}

MarkedText CallPreparer::RenderChat(GenerateCall& call, const std::stop_token& stop) const {
  if (chat_ == nullptr) throw ApiError(400, "this model cannot chat: " + options_.no_chat_reason);
  TextGrowth growth = GrowthOf(call.conversation, stop);
  fit_->FitConversation(call, growth);
  std::string mark;
  if (call.continue_final_message) mark = MarkEndOfLastMessage(call.conversation.messages);
  MarkedText text = chat_->Render(call.conversation, WatchOf(growth, stop));
  if (call.continue_final_message) text = CutAtMark(text, mark);
  if (call.truncate_prompt_tokens == 0) CheckSize(text.text, "messages");
  fit_->ShapeAnswer(text.text, call);
  return text;
}

/// Returns the error for a prompt with more tokens than the context.
ApiError CallPreparer::PromptTooLong(const GenerateCall& call) const {
  return ContextLengthError(options_.request.max_model_len, "the prompt has more: shorten it", FieldOf(call));
}

bool CallPreparer::Knows(const std::vector<TokenId>& tokens) const {
  return std::ranges::all_of(tokens, [&](TokenId token) { return token < options_.request.vocab_size; });
}

/// Throws ApiError for tokens without an embedding. A tokenizer may have such tokens, mostly for images.
void CallPreparer::RefuseUnknown(const std::vector<TokenId>& prompt, const char* field) const {
  if (Knows(prompt)) return;
  const TokenId token = *std::ranges::max_element(prompt);
  throw ApiError(400,
                 fmt::format("the prompt has token {} (\"{}\"), for which the model has no embedding: it has {} tokens",
                             token, tokenizer_.Bytes(token).substr(0, 100), options_.request.vocab_size),
                 field);
}

/// Finds the tokens of bad words as vLLM does: of the word alone, and of the word after a space if the first token then
/// differs. All words together get the time limit of one text.
void CallPreparer::FindBadWords(GenerateCall& call, const std::stop_token& stop) const {
  auto& words = call.sampling.bad_words;
  size_t tokens = 0, bytes = 0;
  for (const std::string& word : call.bad_words) bytes += 2 * word.size();
  SplitBudget splitting(bytes, {}, stop);
  const EncodeBounds bounds{.stop = stop, .splitting = &splitting};
  for (const std::string& word : call.bad_words) {
    const size_t begin = std::min(word.find_first_not_of(' '), word.size());
    const std::string bare = word.substr(begin);
    if (bare.empty()) JsonFields::Refuse("bad_words", "must be more than spaces");
    const std::vector<TokenId> alone = tokenizer_.EncodePrompt(bare, false, bounds);
    const std::vector<TokenId> inside = tokenizer_.EncodePrompt(" " + bare, false, bounds);
    if (!alone.empty() && Knows(alone)) words.push_back(alone);  // the model never generates unknown tokens
    if (inside.size() == alone.size() && !inside.empty() && inside.front() != alone.front() && Knows(inside))
      words.push_back(inside);
    tokens += alone.size() + inside.size();
  }
  if (tokens > kMaxBadWordTokens)
    JsonFields::Refuse("bad_words",
                       fmt::format("are {} tokens, at most {} are taken; give fewer", tokens, kMaxBadWordTokens));
  call.bad_words.clear();
}

/// Turns the client's `prediction` into tokens, at most as many as an answer may have. The body's size bounds the work.
/// Text of the prediction never becomes a control token. A prediction with a token that the model does not know is
/// dropped.
void CallPreparer::EncodePrediction(GenerateCall& call, const std::stop_token& stop) const {
  if (call.prediction.empty()) return;
  std::vector<TokenId> tokens = tokenizer_.Encode(MarkedText(call.prediction, MarkedText::kFromUser), {stop, SIZE_MAX});
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(options_.request.max_model_len)));
  tokens.shrink_to_fit();
  if (Knows(tokens)) call.prediction_tokens = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
  call.prediction = std::string();
}

}  // namespace quire
