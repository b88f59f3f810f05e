#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/openai/event_queue.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/cluster/replicas/replicas.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What every call needs of the server.
struct CallContext {
  const Tokenizer& tokenizer;
  Replicas& replicas;
  std::vector<TokenId> eos_token_ids;
};

/// One call's requests in one engine after another, from submission to the last event. Cancelled when it is destroyed.
class RunningCall {
 public:
  /// prompts: the tokens of every prompt. request_id: the first of prompts.size() ids that are free for it.
  RunningCall(const CallContext& context, const GenerateCall& call, std::vector<std::vector<TokenId>> prompts,
              int max_tokens, RequestId first_id, const std::string& name, boost::asio::any_io_executor executor);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  EventQueue& events() { return *events_; }
  int num_choices() const { return num_choices_; }
  int max_tokens() const { return max_tokens_; }  // of a choice
  void Cancel();

 private:
  Replicas& replicas_;
  std::shared_ptr<EventQueue> events_;
  std::vector<RequestId> ids_;
  int num_choices_ = 0, max_tokens_ = 0;
  bool cancelled_ = false;
};

}  // namespace quire
