#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/models/model_keeper.h"
#include "coordinator/api/openai/event_queue.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// The parts of the server that one call uses, and the account that the call belongs to.
struct CallContext {
  const Tokenizer& tokenizer;
  ModelKeeper& keeper;
  ServedModel& model;
  std::vector<TokenId> eos_token_ids;
  std::string share;  // the client's API key or network
};

/// The requests of one call, from submission to the last event, on whichever replicas they run. The call waits until
/// its model is loaded. While the call's requests run, the model stays loaded. When other models need the memory, the
/// call's requests leave the workers, and continue once the model is loaded again, without repeating a token. The
/// destructor cancels the requests.
class RunningCall {
 public:
  /// Submits the call's requests. `prompts` has the tokens of each prompt. `first_id` is the first of prompts.size()
  /// unused ids. `name` is the answer's id. `context` and `call` must outlive this object.
  RunningCall(const CallContext& context, const GenerateCall& call, std::vector<std::vector<TokenId>> prompts,
              int max_tokens, RequestId first_id, const std::string& name, boost::asio::any_io_executor executor);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  EventQueue& events() { return *events_; }
  int num_choices() const { return num_choices_; }
  int max_tokens() const { return max_tokens_; }  // most tokens of one choice
  void Cancel();
  /// Releases the model. Call it when no further event is read.
  void LetGo();

 private:
  using Requests = std::vector<std::unique_ptr<Request>>;
  struct Link {
    RunningCall* call = nullptr;
  };

  void Submit(const std::vector<TokenId>& prompt, int64_t tokens, Arrival arrival);
  void Ask(std::vector<TokenId> prompt, int64_t tokens, Arrival arrival, double most_seconds);
  void Pause();
  void OnWithdrawn(Requests requests);

  const CallContext& context_;
  const GenerateCall& call_;
  ModelKeeper& keeper_;
  std::unique_ptr<ModelKeeper::Use> use_;  // null: the model is not loaded yet, or was released
  uint64_t wait_ = 0;                      // number of the wait in keeper_; 0: the call waits for no model
  boost::asio::any_io_executor executor_;
  std::shared_ptr<EventQueue> events_;
  std::shared_ptr<std::atomic<bool>> announced_ = std::make_shared<std::atomic<bool>>(false);  // call is accepted
  std::vector<RequestId> ids_;
  std::vector<std::weak_ptr<RequestSink>> sinks_;  // a sink expires when its request has ended
  std::shared_ptr<Link> link_;                     // holds null once this object is gone; used on the I/O thread
  Requests withdrawn_;                             // have left their replicas
  int answers_due_ = 0;                            // replicas that have not answered a withdrawal yet
  int num_choices_ = 0, max_tokens_ = 0;
  bool cancelled_ = false;
};

}  // namespace quire
