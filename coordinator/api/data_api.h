#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>

#include "coordinator/api/generation.h"
#include "coordinator/api/http_types.h"
#include "coordinator/api/metrics.h"
#include "coordinator/api/openai_response.h"
#include "coordinator/text/chat_template.h"

namespace quire {

/// The data port: OpenAI's endpoints and the few around them. One thread: the I/O thread.
class DataApi {
 public:
  struct Options {
    std::string model_name;
    RequestLimits request;
    int max_pending_requests = 0;  // choices queued or running
    std::string no_chat_reason;    // why chat is refused; empty: it is not
    std::optional<int64_t> seed;   // of requests that bring none; absent: random
    int64_t pool_tokens = 0;       // what the KV blocks hold
  };
  /// chat may be null. The references outlive this object.
  DataApi(Options options, GenerationContext context, const ChatTemplate* chat, Metrics& metrics, ByteBudget& budget);

  /// With the head alone: refuses what would be refused whatever the body says, and charges the body.
  std::optional<HttpResponse> Admit(HttpRequest& head);
  boost::asio::awaitable<void> Handle(const HttpRequest& request, HttpResponder& responder);

  /// Waits for texts that are being tokenised on another thread. Nothing may be served afterwards.
  void StopTokenizing() { tokenizer_pool_.join(); }

  /// New generating requests get 503 meanwhile.
  void SetDraining(bool draining) { draining_ = draining; }
  int pending_requests() const { return pending_requests_; }

 private:
  struct Slot;  // a reserved place among the pending requests

  HttpResponse Page(const HttpRequest& request) const;
  boost::asio::awaitable<void> Generate(const HttpRequest& request, HttpResponder& responder, bool chat);
  boost::asio::awaitable<void> AnswerWhole(Generation& generation, const GenerateCall& call,
                                           const ResponseBuilder& builder, Usage usage, std::string echo,
                                           HttpResponder& responder);
  boost::asio::awaitable<void> AnswerStream(Generation& generation, const GenerateCall& call,
                                            const ResponseBuilder& builder, Usage usage, std::string echo,
                                            HttpResponder& responder);
  std::optional<HttpResponse> RefuseForLoad(int choices_to_come);
  std::optional<HttpResponse> Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes);
  boost::asio::awaitable<std::vector<std::vector<TokenId>>> Encode(const GenerateCall& call, size_t body_bytes);
  std::vector<std::vector<TokenId>> EncodeHere(const GenerateCall& call) const;
  int MaxTokens(const GenerateCall& call, size_t longest_prompt) const;
  HttpResponse Models(const std::string& id) const;
  HttpResponse Tokenize(const HttpRequest& request) const;
  HttpResponse Detokenize(const HttpRequest& request) const;
  HttpResponse TokenizerInfo() const;

  Options options_;
  GenerationContext context_;
  const ChatTemplate* chat_;
  Metrics& metrics_;
  ByteBudget& budget_;
  boost::asio::thread_pool tokenizer_pool_{1};
  bool draining_ = false;
  int pending_requests_ = 0;
  RequestId next_id_ = 1;
  int64_t created_;
};

}  // namespace quire
