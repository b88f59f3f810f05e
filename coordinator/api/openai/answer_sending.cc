// The part of DataPort that sends answers: functions that turn a call's events into a whole answer or a stream.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/api/openai/answer_memory.h"
#include "coordinator/api/openai/call_timer.h"
#include "coordinator/api/openai/exchange.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/openai/pooled_answer.h"
#include "coordinator/api/openai/whole_answer.h"

namespace quire {

namespace asio = boost::asio;

namespace {

// After kQuiet without an event, a stream sends a note if its model is loading or its workers are being replaced. After
// kQuietsToPing times kQuiet without an event, the stream sends a keep-alive text.
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr int kQuietsToPing = 7;

/// Keeps the n best of each prompt's best_of choices, by mean log-probability per token, best first.
void KeepBest(std::vector<AnswerChoice>& choices, const GenerateCall& call) {
  std::vector<AnswerChoice> best;
  for (auto begin = choices.begin(); begin != choices.end(); begin += call.best_of) {
    std::stable_sort(begin, begin + call.best_of,
                     [](const auto& a, const auto& b) { return a.mean_logprob > b.mean_logprob; });
    best.insert(best.end(), std::make_move_iterator(begin), std::make_move_iterator(begin + call.n));
  }
  choices = std::move(best);
}

/// Makes one record per prompt with the data that the answer reports about the prompt, and gives each choice its
/// prompt's record. Returns no records when the answer reports nothing about prompts.
std::vector<std::shared_ptr<AnswerPrompt>> PromptsOf(const GenerateCall& call, const std::vector<std::string>& echo,
                                                     const std::vector<std::vector<TokenId>>& ids,
                                                     std::vector<AnswerChoice>& choices) {
  std::vector<std::shared_ptr<AnswerPrompt>> prompts;
  if (!call.echo && call.num_prompt_logprobs < 0 && ids.empty()) return prompts;
  for (size_t i = 0; i < choices.size(); ++i) {
    const size_t index = i / static_cast<size_t>(call.num_delivered());
    if (index == prompts.size()) {
      prompts.push_back(std::make_shared<AnswerPrompt>());
      if (!echo.empty()) prompts[index]->text = echo[index];
      if (!ids.empty()) prompts[index]->ids = ids[index];
      if (call.echo) prompts[index]->num_echoed_top = call.num_top_logprobs;
      prompts[index]->num_listed_top = call.num_prompt_logprobs;
    }
    choices[i].prompt = prompts[index];
  }
  return prompts;
}

ApiError ErrorOf(const CallEvent& event) {
  ApiError error(event.error_status, event.error);
  error.retry_in_vain = event.retry_in_vain;
  return error;
}

/// Waits until the engine has accepted every request, or the client has left. Throws the error of a refused request.
/// The stream's head (status 200) is sent only after that, so that a refusal becomes an error answer and not a stream.
asio::awaitable<void> AwaitAccepted(RunningCall& running, int num_requests, const HttpResponder& responder,
                                    CallTimer& timer) {
  for (int accepted = 0; accepted < num_requests && !responder.gone();) {
    std::optional<CallEvent> event = co_await running.events().Next(std::chrono::seconds(1));
    if (!event) continue;
    timer.OnEvent(*event);
    if (!event->error.empty()) throw ErrorOf(*event);
    ++accepted;
  }
}

std::string StreamError(const CallEvent& event) {
  return "data: " + ErrorResponse(event.error_status, event.error).body + "\n\n";
}

/// Returns the note that a stream without events sends while the model's workers cannot compute; "" when they can.
const char* SignOf(const ServedModel& model) {
  if (model.phase() != LifePhase::kLoaded) return ": loading\n\n";
  return model.replicas().recovering() ? ": recovering\n\n" : "";
}

}  // namespace

asio::awaitable<void> DataPort::AnswerWhole(RunningCall& running, Exchange& exchange) {
  const GenerateCall& call = exchange.call;
  Usage& usage = exchange.usage;
  CallTimer timer(exchange.desk.metrics, call, running, usage.prompt_tokens, exchange.responder.record);
  std::vector<AnswerChoice> choices(static_cast<size_t>(running.num_choices()));
  const std::vector<std::shared_ptr<AnswerPrompt>> prompts =
      PromptsOf(call, exchange.echo, exchange.prompt_ids, choices);
  size_t finished = 0;
  int64_t text_bytes = 0;
  while (finished < choices.size() && !exchange.responder.gone()) {
    std::optional<CallEvent> event = co_await running.events().Next(std::chrono::seconds(1));
    if (!event || event->accepted) continue;
    timer.OnEvent(*event);
    if (!event->error.empty()) throw ErrorOf(*event);
    text_bytes += 2 * static_cast<int64_t>(event->text.size());
    if (!exchange.HoldText(text_bytes + exchange.waiting_bytes)) throw ApiError(503, kTooLong);
    if (event->of_prompt) {
      AnswerPrompt& prompt = *prompts[static_cast<size_t>(event->choice / call.num_delivered())];
      prompt.text += event->text;
      std::ranges::move(event->tokens, std::back_inserter(prompt.tokens));
      continue;
    }
    auto& choice = choices[static_cast<size_t>(event->choice)];
    exchange.Add(*event, choice);
    std::ranges::move(event->tokens, std::back_inserter(choice.tokens));
    choice.finished = event->finished;
    choice.stop_sequence = event->stop_sequence;
    choice.pooled = std::move(event->pooled);
    if (event->finished) choice.mean_logprob = event->mean_logprob;
    usage.Add(*event);
    finished += event->finished.has_value();
  }
  if (exchange.responder.gone()) co_return;
  running.LetGo();
  exchange.slot.Release();
  exchange.choices.clear();  // frees the texts that the choices' parsers hold
  if (call.num_delivered() > call.n) KeepBest(choices, call);
  co_await SendWhole(std::move(choices), exchange);
}

/// Sends a whole answer. A long answer is sent piece by piece: each piece is made when the client has read the previous
/// piece. Until the whole answer is sent, the call is charged for its records' bytes; its choices no longer count as
/// pending.
asio::awaitable<void> DataPort::SendWhole(std::vector<AnswerChoice> choices, Exchange& exchange) {
  HttpResponder& responder = exchange.responder;
  int64_t held = RecordBytes(choices) + KeptBytes(exchange.call) + exchange.PromptBytes() + kSendBytes;
  if (exchange.form) held += exchange.form->repeated_bytes();
  if (exchange.pooling) held += DocumentBytes(*exchange.pooling);
  std::shared_ptr<PiecewiseText> answer;
  if (exchange.pooling) {
    std::vector<std::vector<float>> vectors;
    for (AnswerChoice& choice : choices) vectors.push_back(std::move(choice.pooled));
    answer = PooledAnswer(exchange.builder.Envelope(false), std::move(*exchange.pooling), std::move(vectors),
                          exchange.usage);
  } else if (exchange.form) {
    answer = exchange.form->Whole(std::move(choices.front()), exchange.usage);
  } else {
    answer = std::make_shared<WholeAnswer>(exchange.builder, std::move(choices), exchange.call.num_top_logprobs >= 0,
                                           exchange.usage);
  }
  // Keeps the unused part of the charge for the answer's texts, before other calls can take that memory.
  exchange.made_bytes = std::max<int64_t>(0, exchange.memory.bytes() - held);
  if (answer->estimated_bytes() <= kSmallAnswerBytes) {
    (void)exchange.HoldMade(0);
    HttpResponse response;
    response.body = answer->Next(SIZE_MAX);
    co_await responder.Send(std::move(response));
    co_return;
  }
  co_await AwaitRoom(answer->most_bytes(), exchange);
  co_await responder.BeginPieces();
  co_await WritePieces(answer, exchange);
  co_await responder.EndStream();
}

/// Returns a stream's chunks for one event: its text or tokens, and the end of its choice.
std::string DataPort::ChunksOf(const CallEvent& event, Exchange& exchange) {
  if (exchange.form) return exchange.form->Delta(exchange.PartsOf(event), event);
  if (exchange.call.chat) return exchange.ChatChunks(event);
  const bool with_logprobs = exchange.call.num_top_logprobs >= 0;
  std::string text;
  if (!event.text.empty() || !event.tokens.empty()) {
    Json chunk = exchange.builder.Chunk(event.choice, false, event.text, event.tokens, with_logprobs, std::nullopt);
    if (event.of_prompt) chunk["choices"][0].erase("token_ids");  // the opening chunk had the token ids
    text += exchange.ChunkText(std::move(chunk));
  }
  if (event.finished) {
    text += exchange.ChunkText(exchange.builder.Chunk(event.choice, false, "", {}, false, event.finished));
  }
  return text;
}

asio::awaitable<void> DataPort::AnswerStream(RunningCall& running, Exchange& exchange) {
  const GenerateCall& call = exchange.call;
  HttpResponder& responder = exchange.responder;
  Usage& usage = exchange.usage;
  CallTimer timer(exchange.desk.metrics, call, running, usage.prompt_tokens, responder.record);
  const auto choices = static_cast<size_t>(running.num_choices());
  co_await AwaitAccepted(running, running.num_choices() / call.num_delivered(), responder, timer);
  co_await responder.BeginStream();
  co_await SendOpenings(choices, exchange);

  int quiets = 0;
  std::shared_ptr<PiecewiseText> failure;
  for (size_t finished = 0; finished < choices && !responder.gone();) {
    std::optional<CallEvent> event = co_await running.events().Next(kQuiet);
    quiets = event ? 0 : quiets + 1;
    std::string text;
    if (!event) text = SignOf(exchange.desk.model);
    if (!event && quiets % kQuietsToPing == 0) text = exchange.form ? exchange.form->Ping() : ": ping\n\n";
    // Events that came while the client was reading are sent together in a few writes.
    for (; event; event = running.events().TryNext()) {
      if (!exchange.HoldEvent(*event)) event->error = kTooLong, event->error_status = 503;
      timer.OnEvent(*event);
      if (!event->error.empty()) {
        if (exchange.form) {
          failure = exchange.form->Failure(*event);
        } else {
          text += StreamError(*event);
        }
        finished = choices;
        break;
      }
      usage.Add(*event);
      for (int i = 1; event->of_prompt && i < call.num_delivered(); ++i, ++event->choice) {
        text += ChunksOf(*event, exchange);
        if (text.size() < kPieceBytes) continue;
        std::string piece = std::exchange(text, {});
        co_await responder.Write(std::move(piece));
      }
      text += ChunksOf(*event, exchange);
      finished += event->finished.has_value();
      if (text.size() < kPieceBytes || finished == choices) continue;
      std::string piece = std::exchange(text, {});
      co_await responder.Write(std::move(piece));
    }
    if (finished == choices) running.LetGo(), exchange.slot.Release();
    co_await responder.Write(std::move(text));
  }
  if (failure != nullptr) {
    co_await SendText(failure, exchange);
  } else {
    co_await SendEnding(exchange);
  }
  co_await responder.EndStream();
}

}  // namespace quire
