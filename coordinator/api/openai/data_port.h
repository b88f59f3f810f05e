#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "coordinator/api/access/key_quotas.h"
#include "coordinator/api/openai/call_preparer.h"
#include "coordinator/api/openai/model_desk.h"
#include "coordinator/api/openai/page_api.h"
#include "coordinator/api/openai/response_pages.h"
#include "coordinator/api/openai/running_call.h"
#include "coordinator/http/http_types.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/work_pool.h"
#include "coordinator/metrics/metrics.h"

namespace quire {

class PiecewiseText;
struct AnswerChoice;

/// The handlers of the data port: OpenAI's and Anthropic's endpoints, and a few more. Only the I/O thread uses this
/// class.
class DataPort {
 public:
  struct Options {
    std::optional<int64_t> seed;  // base seed of requests without a seed; nullopt: random
    std::map<std::string, Topology::KeyLimits> key_limits;
    bool chat_page = true;
    std::vector<Routes<DataHandler>::Route> more_routes = {};  // endpoints that other objects answer
  };
  /// The server's resources. Both pools must be stopped before the DataPort is destroyed.
  struct Means {
    ByteBudget& memory;
    WorkPool &pool, &grammar_pool;  // grammar_pool has one thread, the only user of the models' grammars
    ModelKeeper& keeper;            // loads and unloads the models
  };
  /// Create this object after ModelRoster::Start. The references must outlive this object.
  DataPort(Options options, ModelRoster& models, Metrics& metrics, Means means);

  /// Returns the refusal of a request whose head alone shows that it is invalid or cannot be served now; otherwise
  /// nullopt. Charges the memory for requests with the declared length of the body.
  std::optional<HttpResponse> Admit(HttpRequest& head);
  boost::asio::awaitable<void> Handle(HttpRequest& request, HttpResponder& responder);
  std::string_view RouteOf(std::string_view path) const { return routes_.PatternOf(path); }

  /// draining: new generating requests get 503. paused: the engines hold requests back. In both cases /ready answers
  /// 503, so that load balancers use other servers.
  void SetAccepting(bool draining, bool paused) { draining_ = draining, paused_ = paused; }
  /// Replaces the limits of single API keys for later requests.
  void SetKeyLimits(const std::map<std::string, Topology::KeyLimits>& limits) { quotas_.SetLimits(limits); }
  /// Returns the number of choices that wait or run, plus the number of answers still being sent.
  int unfinished() const { return desks_.num_pending() + num_sending_; }
  /// Returns the number of choices that wait or run, without the choices of batches.
  int num_pending_of_others() const { return desks_.num_pending() - num_background_; }
  bool draining() const { return draining_; }

 private:
  class Slot;       // counts one call's choices as pending
  struct Exchange;  // one call and the state of its answer
  Routes<DataHandler> MakeRoutes();
  PageApi::Charge Charging();
  PageApi::TakeTokens TakingTokens();
  HttpResponse Readiness() const;

  /// Checks limits and prepares a call. Returns nullopt when the call was refused and answered, or when the client
  /// left.
  boost::asio::awaitable<std::optional<PreparedCall>> Admitted(ModelDesk& desk, HttpRequest& request,
                                                               HttpResponder& responder, Dialect dialect, Slot& slot,
                                                               ByteBudget::Lease& memory);
  boost::asio::awaitable<void> Generate(HttpRequest& request, HttpResponder& responder, Dialect dialect);
  boost::asio::awaitable<std::optional<PreparedCall>> Prepare(const ModelDesk& desk, HttpRequest& request,
                                                              HttpResponder& responder, Dialect dialect);
  /// Compiles the call's grammar, if it has one, on trial. Returns false when the client left. `share`: the account
  /// that pays for the work in the pool (HttpRequest::share).
  boost::asio::awaitable<bool> TryGrammar(ModelDesk& desk, const GenerateCall& call, const std::string& share,
                                          HttpResponder& responder);
  boost::asio::awaitable<void> AnswerWhole(RunningCall& running, Exchange& exchange);
  boost::asio::awaitable<void> SendWhole(std::vector<AnswerChoice> choices, Exchange& exchange);
  boost::asio::awaitable<void> WritePieces(std::shared_ptr<PiecewiseText> text, Exchange& exchange);
  boost::asio::awaitable<void> AnswerStream(RunningCall& running, Exchange& exchange);
  boost::asio::awaitable<void> SendText(std::shared_ptr<PiecewiseText> text, Exchange& exchange);
  boost::asio::awaitable<void> AwaitRoom(size_t bytes, Exchange& exchange);
  boost::asio::awaitable<void> SendOpenings(size_t choices, Exchange& exchange);
  boost::asio::awaitable<void> SendEnding(Exchange& exchange);
  static std::string ChunksOf(const CallEvent& event, Exchange& exchange);

  /// Returns the refusal when the client may not have `choices_to_come` more waiting or running choices of this model;
  /// otherwise nullopt.
  std::optional<HttpResponse> RefuseForLoad(ModelDesk& desk, const std::string& client, int choices_to_come);
  /// True when some model may take one more choice of the client.
  bool HasRoom(const std::string& client) const;
  /// Returns a refusal when the limits of the client's API key forbid `choices` more pending choices, or further
  /// tokens; otherwise nullopt.
  std::optional<HttpResponse> RefuseForQuota(const std::string& client, int choices);
  /// Charges the client's quota for the tokens of a body that generates nothing. Returns the refusal when the quota is
  /// used up, otherwise nullopt.
  std::optional<HttpResponse> TakeTokens(const std::string& client, size_t body_bytes);
  /// Changes the bytes that `memory` holds to `bytes`, or returns the refusal.
  std::optional<HttpResponse> Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes);

  Options options_;
  ModelRoster& models_;
  Metrics& metrics_;
  Means means_;
  ModelDesks desks_;
  PageApi pages_;
  ResponsePages responses_;
  KeyQuotas quotas_;
  bool draining_ = false, paused_ = false;
  int num_background_ = 0;  // pending choices that belong to calls of batches
  int num_sending_ = 0;     // calls whose generation has ended and whose answer is being sent
  RequestId next_id_ = 1;
  Routes<DataHandler> routes_;
};

}  // namespace quire
