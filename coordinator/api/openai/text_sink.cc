#include "coordinator/api/openai/text_sink.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/api/openai/answer_stops.h"
#include "coordinator/api/openai/call_ending.h"
#include "coordinator/api/openai/prompt_reporter.h"
#include "coordinator/text/stop_matcher.h"
#include "coordinator/text/tokenizer/detokenizer.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

/// The sink of one request. It makes text on the engine's thread, so that a stop string ends a choice before the next
/// step is planned.
class TextSink : public RequestSink {
 public:
  TextSink(const Tokenizer& tokenizer, const GenerateCall& call, const std::vector<TokenId>& prompt, int first_choice,
           std::shared_ptr<EventQueue> events)
      : tokenizer_(tokenizer),
        first_choice_(first_choice),
        report_tokens_(call.num_top_logprobs >= 0 || call.return_token_ids),
        min_tokens_(call.sampling.min_tokens),
        detokenizes_(call.detokenize),
        echoes_(call.echo),
        only_prompt_(call.only_prompt()),
        lists_tokens_(!call.sampling.logprob_tokens.empty()),
        client_tokens_(call.client_tokens),
        events_(std::move(events)) {
    const auto stops = StopMatcher(call.stop, call.include_stop);
    for (int i = 0; i < call.num_delivered(); ++i) {
      choices_.push_back({.detokenizer = Detokenizer(tokenizer, call.skip_special_tokens, call.shown_tokens),
                          .stops = AnswerStops(stops, !call.stop.empty(), call.shape)});
    }
    if (call.num_scored_top() < 0) return;
    prompt_.emplace(tokenizer, call.skip_special_tokens);
    first_ = prompt_->First(prompt);
  }

  void OnStart(double waited_seconds) override {
    waited_ = std::max(0.0, waited_seconds);
    if (prompt_) EmitPrompt({std::move(first_)});
  }

  void OnPromptScores(const PromptScores& scores, const std::vector<TokenId>& prompt) override {
    EmitPrompt(prompt_->Next(scores, prompt));
  }

  bool OnToken(const TokenEvent& token) override {
    if (only_prompt_) {
      pooled_.assign(token.pooled.begin(), token.pooled.end());
      for (size_t i = 0; lists_tokens_ && i < token.top.size(); ++i) pooled_.push_back(token.top[i].second);
      return false;
    }
    Choice& choice = choices_[static_cast<size_t>(token.choice)];
    if (client_tokens_ != nullptr) ++*client_tokens_;
    ++choice.pending_count;
    choice.logprob_sum += token.logprob;
    ++choice.num_tokens;
    const std::string text = detokenizes_ ? choice.detokenizer.Push(token.token) : "";
    if (report_tokens_) {
      choice.pending_tokens.push_back(Report(token, choice.num_characters));
      choice.num_characters += NumCharacters(text);
    }
    // Before min_tokens a stop string counts as ordinary text.
    const bool may_stop = choice.num_tokens > min_tokens_;
    const AnswerStops::Output out = choice.stops.Push(text, may_stop);
    choice.pending_text += out.text;
    choice.words = out.words;
    if (out.stopped || IsDue(choice, token.more_follow))
      Emit(token.choice, std::exchange(choice.pending_text, {}), std::nullopt);
    choice.stopped = out.stopped;
    choice.stop_sequence = out.stop;
    return out.stopped;
  }

  void OnFinish(int index, FinishReason reason) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    std::string rest = std::exchange(choice.pending_text, {});
    if (only_prompt_) reason = FinishReason::kLength;
    // The stop token was generated, so it counts as a token of the answer.
    if (reason == FinishReason::kStop && !choice.stopped) ++choice.pending_count;
    if (!choice.stopped) {  // bytes of an incomplete character are dropped
      AnswerStops::Output last = choice.stops.Finish(reason == FinishReason::kLength);
      rest += last.text, choice.words = last.words;
      if (last.stopped && reason == FinishReason::kLength) reason = FinishReason::kStop;
      choice.stop_sequence = std::move(last.stop);
    }
    Emit(index, rest, reason);
  }

  void OnHiddenStop(int index, float logprob) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.logprob_sum += logprob;
    ++choice.num_tokens;
  }

  void OnDrafts(int index, int accepted, int refused) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.accepted += accepted;
    choice.refused += refused;
  }

  void OnCached(int tokens) override {
    CallEvent event;
    event.choice = first_choice_;
    event.cached_tokens = tokens;
    events_->Push(std::move(event));
  }

  bool Abandoned() const override { return events_->Abandoned(); }

  void OnError(RequestError error, const std::string& message) override { events_->Push(EndingOf(error, message)); }

 private:
  struct Choice {
    Detokenizer detokenizer;
    AnswerStops stops;
    std::string pending_text;                   // text that will be sent with later text
    std::vector<ReportedToken> pending_tokens;  // tokens that were not sent yet
    int pending_count = 0;
    int accepted = 0, refused = 0;     // draft tokens that no event has reported yet
    size_t words = AnswerStops::kAll;  // content bytes that may be sent
    bool stopped = false;
    std::string stop_sequence;  // the stop string that was found
    double logprob_sum = 0;
    int num_tokens = 0;
    size_t num_characters = 0;  // characters of the generated text; counted only when tokens are reported
  };

  /// True when pending text and tokens must be sent now. `more_follow`: the choice's next token of the same step
  /// follows this call. Tokens that come without a pause are collected into few events. An event has a bounded number
  /// of tokens, so that making its JSON does not hold up the I/O thread.
  bool IsDue(const Choice& choice, bool more_follow) const {
    constexpr size_t kTextBytes = 4 << 10;
    constexpr int kTokens = 256;
    if (choice.pending_tokens.size() >= PromptReporter::kMostTokens) return true;
    if (more_follow) return choice.pending_text.size() >= kTextBytes || choice.pending_count >= kTokens;
    return !choice.pending_text.empty() || !detokenizes_;
  }

  static ReportedToken Report(const TokenEvent& token, size_t text_offset) {
    return {token.token, token.logprob, token.top, text_offset};
  }

  void EmitPrompt(std::vector<PromptReporter::Part> parts) {
    for (PromptReporter::Part& part : parts) {
      CallEvent event;
      event.choice = first_choice_;
      event.of_prompt = true;
      event.tokens = std::move(part.tokens);
      if (echoes_) event.text = std::move(part.text);
      events_->Push(std::move(event));
    }
    for (Choice& choice : choices_) choice.num_characters = echoes_ ? prompt_->num_characters() : 0;
  }

  void Emit(int index, std::string text, std::optional<FinishReason> finished) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    CallEvent event;
    event.choice = first_choice_ + index;
    event.text = std::move(text);
    event.words = choice.words;
    event.tokens = std::exchange(choice.pending_tokens, {});
    event.num_tokens = std::exchange(choice.pending_count, 0);
    event.accepted_drafts = std::exchange(choice.accepted, 0);
    event.refused_drafts = std::exchange(choice.refused, 0);
    event.queue_seconds = std::exchange(waited_, std::nullopt);
    event.finished = finished;
    if (finished) event.stop_sequence = std::move(choice.stop_sequence), event.pooled = std::move(pooled_);
    if (finished && choice.num_tokens > 0) event.mean_logprob = choice.logprob_sum / choice.num_tokens;
    events_->Push(std::move(event));
  }

  const Tokenizer& tokenizer_;
  int first_choice_;
  bool report_tokens_;
  int min_tokens_;
  bool detokenizes_;
  bool echoes_, only_prompt_, lists_tokens_;
  std::vector<float> pooled_;  // the prompt's vector, until it is sent
  std::shared_ptr<std::atomic<int64_t>> client_tokens_;
  std::shared_ptr<EventQueue> events_;
  std::vector<Choice> choices_;
  std::optional<double> waited_;          // seconds in the queue, until they are sent
  std::optional<PromptReporter> prompt_;  // only when the prompt's tokens are reported
  PromptReporter::Part first_;            // the first Part; until it is sent
};

}  // namespace

std::unique_ptr<RequestSink> MakeTextSink(const Tokenizer& tokenizer, const GenerateCall& call,
                                          const std::vector<TokenId>& prompt, int first_choice,
                                          std::shared_ptr<EventQueue> events) {
  return std::make_unique<TextSink>(tokenizer, call, prompt, first_choice, std::move(events));
}

}  // namespace quire
