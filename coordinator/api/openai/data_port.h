#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "coordinator/api/access/key_quotas.h"
#include "coordinator/api/access/pending_places.h"
#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/page_api.h"
#include "coordinator/api/openai/response_pages.h"
#include "coordinator/api/openai/running_call.h"
#include "coordinator/grammars/grammar_trials.h"
#include "coordinator/http/http_types.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/work_pool.h"
#include "coordinator/metrics/metrics.h"
#include "coordinator/text/templates/chat_template.h"

namespace quire {

class PiecewiseText;
struct AnswerChoice;

/// The handlers of the data port: OpenAI's and Anthropic's endpoints, and a few more. Used by the I/O thread only.
class DataPort {
 public:
  struct Options {
    std::string model_name;
    RequestLimits request;
    int max_pending_requests = 0;  // most choices that wait or run
    std::string no_chat_reason;    // the reason why chat is refused; empty: chat works
    std::optional<int64_t> seed;   // base seed of requests without a seed; nullopt: random
    int64_t pool_tokens = 0;       // tokens that all KV blocks hold
    std::map<std::string, Topology::KeyLimits> key_limits;
    int max_running = 0;  // sequences that all replicas may run
    bool chat_page = true;
    AnswerFormat answer_format;
    PoolingOptions pooling;
    std::vector<std::string> aliases;                          // other names of the model
    std::vector<std::string> adapters = {};                    // names of its LoRA adapters, in the workers' order
    std::vector<Routes<DataHandler>::Route> more_routes = {};  // that others answer
  };
  /// The server's resources. Both pools must be stopped before this object is destroyed.
  struct Means {
    ByteBudget& memory;
    WorkPool &pool, &grammar_pool;  // grammar_pool has one thread, the only user of `grammars`
    GrammarTrials& grammars;
  };
  /// `chat` may be null. The references must outlive this object.
  DataPort(Options options, CallContext context, const ChatTemplate* chat, Metrics& metrics, Means means);

  /// Refuses a request by its head alone if the body cannot change the refusal, and charges the declared body.
  std::optional<HttpResponse> Admit(HttpRequest& head);
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  std::string_view RouteOf(std::string_view path) const { return routes_.PatternOf(path); }

  /// draining: new generating requests get 503. paused: the engines hold requests back. In both cases /ready answers
  /// 503, so that load balancers use other servers.
  void SetAccepting(bool draining, bool paused) { draining_ = draining, paused_ = paused; }
  /// Replaces the limits of single API keys for later requests.
  void SetKeyLimits(const std::map<std::string, Topology::KeyLimits>& limits) { quotas_.SetLimits(limits); }
  /// The number of choices that wait or run, and of answers still being sent.
  int unfinished() const { return places_.taken() + num_sending_; }
  /// Choices that wait or run, without those of batches.
  int num_pending_of_others() const { return places_.taken() - num_background_; }
  bool draining() const { return draining_; }

 private:
  class Slot;       // a call's places among the pending choices
  struct Exchange;  // one call and the state of its answer
  Routes<DataHandler> MakeRoutes();
  PageApi::Charge Charging();
  PageApi::TakeTokens TakingTokens();
  HttpResponse Readiness() const;

  /// The prepared call; nullopt when it was refused and answered, or when the client left.
  boost::asio::awaitable<std::optional<PreparedCall>> Admitted(HttpRequest& request, HttpResponder& responder,
                                                               Dialect dialect, Slot& slot, ByteBudget::Lease& memory);
  boost::asio::awaitable<void> Generate(HttpRequest& request, HttpResponder& responder, Dialect dialect);
  boost::asio::awaitable<std::optional<PreparedCall>> Prepare(HttpRequest& request, HttpResponder& responder,
                                                              Dialect dialect);
  /// `share` is the account of the pool's work (HttpRequest::share).
  boost::asio::awaitable<bool> TryGrammar(const GenerateCall& call, const std::string& share, HttpResponder& responder);
  boost::asio::awaitable<void> AnswerWhole(RunningCall& running, Exchange& exchange);
  boost::asio::awaitable<void> SendWhole(std::vector<AnswerChoice> choices, Exchange& exchange);
  boost::asio::awaitable<void> WritePieces(std::shared_ptr<PiecewiseText> text, Exchange& exchange);
  boost::asio::awaitable<void> AnswerStream(RunningCall& running, Exchange& exchange);
  boost::asio::awaitable<void> SendText(std::shared_ptr<PiecewiseText> text, Exchange& exchange);
  boost::asio::awaitable<void> AwaitRoom(size_t bytes, Exchange& exchange);
  boost::asio::awaitable<void> SendOpenings(size_t choices, Exchange& exchange);
  boost::asio::awaitable<void> SendEnding(Exchange& exchange);
  static std::string ChunksOf(const CallEvent& event, Exchange& exchange);
  int MaxTokens(const GenerateCall& call, size_t longest_prompt) const;

  /// The refusal when the client may not have `choices_to_come` more choices; nullopt when it may.
  std::optional<HttpResponse> RefuseForLoad(const std::string& client, int choices_to_come);
  /// Returns a refusal when the API key's limits forbid this many further pending choices, or further tokens; otherwise
  /// nullopt.
  std::optional<HttpResponse> RefuseForQuota(const std::string& client, int choices);
  /// Charges the client the tokens of reading a body, or returns the refusal.
  std::optional<HttpResponse> TakeTokens(const std::string& client, size_t body_bytes);
  /// Sets the bytes that `memory` holds to `bytes`, or returns the refusal.
  std::optional<HttpResponse> Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes);

  Options options_;
  CallContext context_;
  Metrics& metrics_;
  Means means_;
  CallPreparer preparer_;
  PageApi pages_;
  ResponsePages responses_;
  KeyQuotas quotas_;
  bool draining_ = false, paused_ = false;
  PendingPlaces places_;    // counts choices; a call counts as 1 while the number of its choices is not known
  int num_background_ = 0;  // places of batches' calls
  int num_sending_ = 0;     // calls that gave their places back
  RequestId next_id_ = 1;
  Routes<DataHandler> routes_;
};

}  // namespace quire
