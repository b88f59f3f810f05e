#include "coordinator/api/openai/running_call.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <iterator>
#include <utility>

#include "coordinator/api/access/client_id.h"
#include "coordinator/api/openai/call_ending.h"
#include "coordinator/api/openai/text_sink.h"
#include "coordinator/api/requests/token_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

/// Returns the salt of the call's cached blocks, which contains the fingerprint of its adapter. The adapter's number is
/// not enough: after a restart another adapter may have the number, and blocks on disk would be mixed up.
std::string SaltOf(const GenerateCall& call) {
  std::string salt = CacheSalt(call.client, call.cache_salt);
  if (call.adapter != nullptr && !call.adapter->contents.empty())
    salt += std::string(1, '\0') + "adapter " + call.adapter->contents;
  return salt;
}

std::unique_ptr<Request> MakeRequest(const CallContext& context, const GenerateCall& call,
                                     const std::vector<TokenId>& prompt, size_t number, int max_tokens, RequestId id,
                                     const std::string& name, std::shared_ptr<RequestSink> sink) {
  auto request = std::make_unique<Request>();
  request->id = id, request->name = name, request->client = call.client;
  request->client_limits = call.client_limits;
  request->cache_salt = SaltOf(call);
  if (call.adapter != nullptr) {
    request->adapter = call.adapter->number;
    request->keeps = call.adapter;
  }
  request->priority = call.priority;
  request->arrival_seconds = EngineLoop::Now() + call.seconds_behind();
  request->background = call.background;
  request->limits.max_tokens = std::max(1, max_tokens);
  request->limits.max_seconds = call.deadline_seconds;
  request->limits.stop_token_ids = call.stop_token_ids;
  if (!call.ignore_eos) {
    auto& stops = request->limits.stop_token_ids;
    stops.insert(stops.end(), context.eos_token_ids.begin(), context.eos_token_ids.end());
  }
  request->sampling = call.sampling;
  request->sampling.num_logprobs = call.num_top_logprobs;
  request->sampling.num_prompt_logprobs = call.num_scored_top();
  if (!call.second_starts.empty()) request->sampling.second_text = call.second_starts[number];
  if (call.sampling.min_tokens > 0) request->sampling.banned_until_min = request->limits.stop_token_ids;
  CheckSomeTokenIsLeft(request->sampling, request->limits.stop_token_ids);
  if (call.best_of > call.n) request->sampling.num_logprobs = std::max(0, request->sampling.num_logprobs);
  if (call.beams) {
    request->beams =
        std::make_unique<BeamSearch>(*call.beams, request->limits.stop_token_ids, request->limits.max_tokens);
    request->sampling.num_logprobs = request->beams->num_candidates();
  }
  request->sequences = NewSequences(prompt, call.best_of);
  if (call.prediction_tokens != nullptr) request->prediction = *call.prediction_tokens;
  request->sink = std::move(sink);
  return request;
}

/// Returns the Arrival with which requests that have left their engine enter an engine again. That engine continues the
/// requests' computation.
Arrival ComeBack(std::vector<RequestId> ids, std::vector<std::unique_ptr<Request>> requests,
                 const std::shared_ptr<EventQueue>& events) {
  const auto held = std::make_shared<std::vector<std::unique_ptr<Request>>>(std::move(requests));
  Arrival arrival;
  arrival.requests = std::move(ids);
  arrival.abandoned = [events] { return events->Abandoned(); };
  arrival.refuse = [events](int status, const std::string& reason) { events->Push(RefusalOf(status, reason)); };
  arrival.prompts = [held] {
    std::vector<ArrivalPrompt> prompts;
    for (const auto& each : *held) {
      if (each->NumCacheable() == 0) continue;
      prompts.push_back({each->cache_salt, each->adapter, each->sequences.front().tokens});
    }
    return prompts;
  };
  arrival.submit = [held, events](Engine& engine) {
    for (auto& request : *held) {
      const auto refusal = engine.Adopt(request, 0, {});
      if (refusal) return events->Push(RefusalOf(500, *refusal));
    }
  };
  return arrival;
}

}  // namespace

RunningCall::RunningCall(const CallContext& context, const GenerateCall& call,
                         std::vector<std::vector<TokenId>> prompts, int max_tokens, RequestId first_id,
                         const std::string& name, asio::any_io_executor executor)
    : context_(context),
      call_(call),
      keeper_(context.keeper),
      executor_(executor),
      events_(std::make_shared<EventQueue>(executor)),
      link_(std::make_shared<Link>(Link{this})),
      num_choices_(static_cast<int>(prompts.size()) * call.num_delivered()),
      max_tokens_(max_tokens) {
  std::vector<std::shared_ptr<Request>> requests;
  int64_t tokens = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    ids_.push_back(first_id + i);
    tokens += static_cast<int64_t>(prompts[i].size());
    std::shared_ptr<RequestSink> sink =
        MakeTextSink(context.tokenizer, call, prompts[i], static_cast<int>(i) * call.num_delivered(), events_);
    sinks_.push_back(sink);
    requests.push_back(MakeRequest(context, call, prompts[i], i, max_tokens, ids_.back(), name, std::move(sink)));
  }
  // All requests go to one replica in one task, and no step runs in between, so the call's first events tell which
  // requests are refused.
  Arrival arrival;
  arrival.abandoned = [events = events_] { return events->Abandoned(); };
  arrival.refuse = [events = events_](int status, const std::string& reason) {
    events->Push(RefusalOf(status, reason));
  };
  arrival.requests = ids_, arrival.prompts = [requests] { return PromptsOf(requests); };
  arrival.submit = [requests = std::move(requests), events = events_, is_told = announced_](Engine& engine) {
    if (events->Abandoned()) return;  // the client left while the workers compiled the grammar
    for (const auto& request : requests) {
      const auto refusal = engine.Submit(std::make_unique<Request>(std::move(*request)));
      if (refusal) return events->Push(RefusalOf(400, *refusal));
      if (!*is_told) events->Push({.accepted = true});
    }
  };
  if (call.keep_alive) keeper_.KeepAlive(context.model, *call.keep_alive, context.share);
  Ask(std::move(prompts.front()), tokens, std::move(arrival), 0);
  *announced_ = wait_ != 0;
  for (size_t i = 0; i < ids_.size() && wait_ != 0; ++i) events_->Push({.accepted = true});
}

/// Submits the requests to the replicas of the loaded model. `prompt`: the first request's prompt, by which a replica
/// is chosen. `tokens`: the tokens of all requests together.
void RunningCall::Submit(const std::vector<TokenId>& prompt, int64_t tokens, Arrival arrival) {
  const int adapter = call_.adapter != nullptr ? call_.adapter->number : 0;
  use_->replicas().Submit(fmt::format("{}:{}", adapter, SaltOf(call_)), prompt, tokens, call_.client,
                          call_.sampling.grammar, std::move(arrival));
}

/// Submits the call once its model is loaded. `most_seconds`: as in ModelKeeper::Ask. A waiting call already counts as
/// accepted, so that its client gets the head of the stream.
void RunningCall::Ask(std::vector<TokenId> prompt, int64_t tokens, Arrival arrival, double most_seconds) {
  auto enter = [this, prompt = std::move(prompt), tokens, arrival = std::move(arrival)](
                   std::unique_ptr<ModelKeeper::Use> use, const ModelKeeper::Refusal& refusal) mutable {
    wait_ = 0;
    use_ = std::move(use);
    if (use_ == nullptr) return events_->Push(RefusalOf(refusal.status, refusal.reason));
    use_->pause = [this] { Pause(); };
    Submit(prompt, tokens, std::move(arrival));
  };
  wait_ = keeper_.Ask(context_.model, std::move(enter), {context_.share, call_.background}, most_seconds);
}

/// Withdraws the requests from the replicas. Requests that are still on their way to an engine are withdrawn later.
void RunningCall::Pause() {
  if (answers_due_ > 0) return;
  answers_due_ = use_->replicas().size();
  use_->replicas().Withdraw(ids_, [link = link_, executor = executor_](Requests requests) {
    asio::post(executor, [link, requests = std::move(requests)]() mutable {
      if (link->call != nullptr) link->call->OnWithdrawn(std::move(requests));
    });
  });
}

void RunningCall::OnWithdrawn(Requests requests) {
  std::ranges::move(requests, std::back_inserter(withdrawn_));
  if (--answers_due_ > 0 || use_ == nullptr || cancelled_) return;
  std::erase_if(sinks_, [](const auto& sink) { return sink.expired(); });
  if (withdrawn_.empty()) return;
  std::vector<TokenId> prompt;
  int64_t tokens = 0;
  for (const auto& request : withdrawn_) {
    if (request->sequences.empty()) continue;
    if (prompt.empty()) prompt = request->sequences.front().tokens;
    tokens += static_cast<int64_t>(request->sequences.front().tokens.size());
  }
  const bool whole = withdrawn_.size() == sinks_.size();
  Arrival arrival = ComeBack(ids_, std::exchange(withdrawn_, {}), events_);
  // If some requests are still on their way to an engine, the others go back to their engines, and the keeper orders a
  // pause again.
  if (!whole) return Submit(prompt, tokens, std::move(arrival));
  use_.reset();
  Ask(std::move(prompt), tokens, std::move(arrival), context_.model.topology().limits.request_seconds);
}

RunningCall::~RunningCall() {
  link_->call = nullptr;
  Cancel();
}

void RunningCall::Cancel() {
  if (std::exchange(cancelled_, true)) return;
  events_->Abandon();
  if (wait_ != 0) keeper_.Forget(std::exchange(wait_, 0));
  if (use_ != nullptr) use_->replicas().Cancel(ids_);
}

void RunningCall::LetGo() {
  Cancel();
  use_.reset();
}

}  // namespace quire
