// The generating half of DataApi: from a request body to tokens in the engine, and from events to an answer.
#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <random>

#include "comm/error.h"
#include "coordinator/api/data_api.h"
#include "coordinator/api/json_fields.h"
#include "coordinator/text/detokenizer.h"

namespace quire {

namespace asio = boost::asio;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// A stream that is quiet for long says that it lives, and why, if the workers are being replaced.
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr int kQuietsToPing = 7;

/// Follows one call for the metrics; reports when it goes out of scope.
class CallTimer {
 public:
  CallTimer(Metrics& metrics, int prompt_tokens, int choices)
      : metrics_(metrics), last_token_(static_cast<size_t>(choices)) {
    finished_.reason = "abort";
    finished_.prompt_tokens = prompt_tokens;
  }
  ~CallTimer() {
    finished_.end_to_end = Seconds(Clock::now() - begin_).count();
    metrics_.Observe(finished_);
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  void OnEvent(const GenerationEvent& event) {
    if (!event.error.empty()) finished_.reason = "error";
    if (event.finished) finished_.reason = FinishReasonName(*event.finished);
    if (event.num_tokens == 0) return;
    const auto now = Clock::now();
    if (finished_.generated_tokens == 0) finished_.time_to_first_token = Seconds(now - begin_).count();
    auto& last = last_token_[static_cast<size_t>(event.choice)];
    if (last) metrics_.ObserveInterTokenLatency(Seconds(now - *last).count() / event.num_tokens);
    last = now;
    finished_.generated_tokens += event.num_tokens;
  }

 private:
  Metrics& metrics_;
  Metrics::Finished finished_;
  Clock::time_point begin_ = Clock::now();
  std::vector<std::optional<Clock::time_point>> last_token_;
};

/// While it lives, a client that leaves or stops reading cancels the generation; declared after it, so that it goes
/// first.
class GoneHook {
 public:
  GoneHook(HttpResponder& responder, Generation& generation)
      : responder_(responder), events_(generation.events().shared_from_this()) {
    responder_.on_gone = [&generation] {
      generation.Cancel();
      generation.events().Wake();
    };
    generation.events().is_stalled = [&responder] { return responder.stalled(); };
    generation.events().on_overflow = [&generation] { generation.Cancel(); };
  }
  ~GoneHook() {
    responder_.on_gone = nullptr;
    events_->is_stalled = nullptr;
    events_->on_overflow = nullptr;
  }
  GoneHook(const GoneHook&) = delete;
  GoneHook& operator=(const GoneHook&) = delete;

 private:
  HttpResponder& responder_;
  std::shared_ptr<EventQueue> events_;  // later events may still be on their way to it
};

/// Keeps, of every prompt's best_of choices, the n with the highest log-probability per token, best first.
void KeepBest(std::vector<ResponseBuilder::Choice>& choices, const GenerateCall& call) {
  std::vector<ResponseBuilder::Choice> best;
  for (auto begin = choices.begin(); begin != choices.end(); begin += call.best_of) {
    std::stable_sort(begin, begin + call.best_of,
                     [](const auto& a, const auto& b) { return a.mean_logprob > b.mean_logprob; });
    best.insert(best.end(), std::make_move_iterator(begin), std::make_move_iterator(begin + call.n));
  }
  choices = std::move(best);
}

std::string EventText(const Json& json) { return "data: " + DumpJson(json) + "\n\n"; }

std::string StreamError(const GenerationEvent& event) {
  return "data: " + ErrorResponse(event.error_status, event.error).body + "\n\n";
}

GenerateCall ParseCall(const std::string& text, bool chat, const RequestLimits& limits) {
  const Json body = ParseJson(text, "body", {.max_depth = 32, .max_nodes = 200'000});
  return chat ? ParseChatRequest(body, limits) : ParseCompletionRequest(body, limits);
}

uint64_t RandomSeed() {
  std::random_device entropy;
  return uint64_t{entropy()} << 32 | entropy();
}

}  // namespace

/// Holds a call's place while it is pending: one from its arrival, one for each choice once those are known.
struct DataApi::Slot {
  explicit Slot(DataApi& a) : api(a), num(1) { api.pending_requests_ += num; }
  ~Slot() { api.pending_requests_ -= num; }
  void Widen(int choices) {
    api.pending_requests_ += choices - num;
    num = choices;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  DataApi& api;
  int num;
};

asio::awaitable<void> DataApi::Generate(const HttpRequest& request, HttpResponder& responder, bool chat) {
  // Nothing is parsed for a client that there is no room for.
  const size_t body_bytes = request.body.size();
  Slot slot(*this);
  std::optional<HttpResponse> refusal = RefuseForLoad(0);
  GenerateCall call;
  if (!refusal) {
    call = ParseCall(request.body, chat, options_.request);
    responder.ForgetContent();
    slot.Widen(call.best_of * static_cast<int>(std::max<size_t>(1, call.prompts.size())));
    refusal = RefuseForLoad(0);
  }
  if (refusal) {
    HttpResponse response = std::move(*refusal);
    co_await responder.Send(std::move(response));
    co_return;
  }
  if (!call.model.empty() && call.model != options_.model_name) {
    throw ApiError(404,
                   "the model \"" + call.model.substr(0, 100) + "\" is not served here; GET /v1/models lists what is",
                   "model");
  }
  call.client = request.client;
  if (!call.has_seed)
    call.sampling.seed = options_.seed ? static_cast<uint64_t>(*options_.seed) + next_id_ : RandomSeed();
  std::vector<std::vector<TokenId>> prompts = co_await Encode(call, body_bytes);

  Usage usage;
  size_t longest = 0;
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw ApiError(400, "the prompt is empty", call.chat ? "messages" : "prompt");
    usage.prompt_tokens += static_cast<int>(prompt.size());
    longest = std::max(longest, prompt.size());
  }
  const int max_tokens = MaxTokens(call, longest);
  std::string echo;
  if (call.echo) {
    if (prompts.size() > 1) throw ApiError(400, "echo takes one prompt", "echo");
    echo = Decode(context_.tokenizer, prompts[0], call.skip_special_tokens);
  }
  const RequestId id = next_id_;
  next_id_ += prompts.size();
  const std::string name = fmt::format("{}-{:016x}", call.chat ? "chatcmpl" : "cmpl", id ^ RandomSeed() << 20);
  const ResponseBuilder builder(call.chat, name, options_.model_name, std::time(nullptr));
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  Generation generation(context_, call, std::move(prompts), max_tokens, id, name, executor);
  call.prompts = std::vector<PromptInput>();
  call.messages = Json();  // the answer may take minutes
  const GoneHook hook(responder, generation);
  if (call.stream) {
    co_await AnswerStream(generation, call, builder, usage, echo, responder);
  } else {
    co_await AnswerWhole(generation, call, builder, usage, echo, responder);
  }
}

asio::awaitable<void> DataApi::AnswerWhole(Generation& generation, const GenerateCall& call,
                                           const ResponseBuilder& builder, Usage usage, std::string echo,
                                           HttpResponder& responder) {
  CallTimer timer(metrics_, usage.prompt_tokens, generation.num_choices());
  ResponseBuilder::Choice initial;
  initial.text = echo;
  std::vector<ResponseBuilder::Choice> choices(static_cast<size_t>(generation.num_choices()), initial);
  size_t finished = 0;
  while (finished < choices.size() && !responder.gone()) {
    std::optional<GenerationEvent> event = co_await generation.events().Next(std::chrono::seconds(1));
    if (!event || event->accepted) continue;
    timer.OnEvent(*event);
    if (!event->error.empty()) throw ApiError(event->error_status, event->error);
    auto& choice = choices[static_cast<size_t>(event->choice)];
    choice.text += event->text;
    choice.tokens.insert(choice.tokens.end(), event->tokens.begin(), event->tokens.end());
    choice.finished = event->finished;
    if (event->finished) choice.mean_logprob = event->mean_logprob;
    usage.completion_tokens += event->num_tokens;
    usage.cached_tokens += event->cached_tokens;
    finished += event->finished.has_value();
  }
  if (responder.gone()) co_return;
  if (call.num_delivered() > call.n) KeepBest(choices, call);
  HttpResponse response;
  response.body = DumpJson(builder.Full(choices, call.num_top_logprobs >= 0, usage));
  co_await responder.Send(std::move(response));
}

asio::awaitable<void> DataApi::AnswerStream(Generation& generation, const GenerateCall& call,
                                            const ResponseBuilder& builder, Usage usage, std::string echo,
                                            HttpResponder& responder) {
  CallTimer timer(metrics_, usage.prompt_tokens, generation.num_choices());
  const bool with_logprobs = call.num_top_logprobs >= 0;
  const auto choices = static_cast<size_t>(generation.num_choices());
  const auto with_usage = [&](Json chunk) {  // every chunk but the last carries usage: null when usage was asked for
    if (call.include_usage) chunk["usage"] = call.continuous_usage ? usage.ToJson() : Json();
    return EventText(chunk);
  };
  // 200 only after the engine took every request: a refusal is an error answer, not a stream.
  const int num_requests = generation.num_choices() / call.num_delivered();
  for (int accepted = 0; accepted < num_requests && !responder.gone();) {
    std::optional<GenerationEvent> event = co_await generation.events().Next(std::chrono::seconds(1));
    if (!event) continue;
    timer.OnEvent(*event);
    if (!event->error.empty()) throw ApiError(event->error_status, event->error);
    ++accepted;
  }
  co_await responder.BeginStream();
  std::string opening;
  for (size_t i = 0; i < choices; ++i) {
    if (call.chat || call.echo)
      opening += with_usage(builder.Chunk(static_cast<int>(i), call.chat, echo, {}, false, std::nullopt));
  }
  co_await responder.Write(std::move(opening));

  int quiets = 0;
  for (size_t finished = 0; finished < choices && !responder.gone();) {
    std::optional<GenerationEvent> event = co_await generation.events().Next(kQuiet);
    quiets = event ? 0 : quiets + 1;
    std::string text;
    if (!event && context_.replicas.recovering()) text = ": recovering\n\n";
    if (!event && quiets % kQuietsToPing == 0) text = ": ping\n\n";
    // What has piled up while the client was reading goes out in one write.
    for (; event; event = generation.events().TryNext()) {
      timer.OnEvent(*event);
      if (!event->error.empty()) {
        text += StreamError(*event);
        finished = choices;
        break;
      }
      usage.completion_tokens += event->num_tokens;
      usage.cached_tokens += event->cached_tokens;
      if (!event->text.empty() || !event->tokens.empty()) {
        text +=
            with_usage(builder.Chunk(event->choice, false, event->text, event->tokens, with_logprobs, std::nullopt));
      }
      if (event->finished) {
        ++finished;
        text += with_usage(builder.Chunk(event->choice, false, "", {}, false, event->finished));
      }
    }
    co_await responder.Write(std::move(text));
  }
  std::string last;
  if (call.include_usage) last += EventText(builder.UsageChunk(usage));
  last += "data: [DONE]\n\n";
  co_await responder.Write(std::move(last));
  co_await responder.EndStream();
}

}  // namespace quire
