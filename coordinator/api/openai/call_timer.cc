#include "coordinator/api/openai/call_timer.h"

#include <algorithm>

#include "coordinator/api/openai/openai_response.h"

namespace quire {

namespace {

double SecondsOf(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

CallTimer::CallTimer(CallMetrics& metrics, const GenerateCall& call, const RunningCall& running, int prompt_tokens,
                     RequestRecord& record)
    : metrics_(metrics), record_(record), choices_(static_cast<size_t>(running.num_choices())) {
  finished_.reason = "abort";
  finished_.prompt_tokens = record_.prompt_tokens = prompt_tokens;
  finished_.choices = call.n;
  finished_.max_tokens = running.max_tokens();
}

CallTimer::~CallTimer() {
  finished_.end_to_end = SecondsOf(Clock::now() - begin_);
  for (const Choice& choice : choices_) finished_.longest_choice = std::max(finished_.longest_choice, choice.tokens);
  metrics_.Observe(finished_);
}

void CallTimer::OnEvent(const CallEvent& event) {
  if (!event.error.empty()) finished_.reason = "error";
  if (event.finished) finished_.reason = FinishReasonName(*event.finished);
  if (event.queue_seconds) {
    record_.queue_seconds = std::max(record_.queue_seconds.value_or(0), *event.queue_seconds);
    if (!finished_.begun) finished_.begun = *event.queue_seconds;
  }
  if (event.num_tokens == 0) return;
  const auto now = Clock::now();
  finished_.last_token = SecondsOf(now - begin_);
  if (!finished_.first_token) {
    finished_.first_token = finished_.last_token;
    metrics_.ObserveFirstToken(*finished_.first_token);
  }
  Choice& choice = choices_[static_cast<size_t>(event.choice)];
  if (choice.last_token) metrics_.ObserveInterTokenLatency(SecondsOf(now - *choice.last_token) / event.num_tokens);
  choice.last_token = now;
  choice.tokens += event.num_tokens;
  finished_.generated_tokens += event.num_tokens;
  record_.completion_tokens = finished_.generated_tokens;
  record_.first_token_seconds = finished_.first_token;
}

}  // namespace quire
