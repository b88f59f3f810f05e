#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/openai/data_handler.h"
#include "coordinator/api/openai/model_desk.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// The data port's endpoints that generate nothing: lists of models, prompts of chats, the conversion of texts to
/// tokens and back, and data about the tokenizer and the server. Only the I/O thread uses this class. Work that grows
/// with a body runs on the pool.
class PageApi {
 public:
  /// Changes the bytes that `memory` holds for a client to `bytes`, or returns the refusal.
  using Charge =
      std::function<std::optional<HttpResponse>(ByteBudget::Lease& memory, const std::string& client, int64_t bytes)>;

  /// Charges a client for the tokens of a body, or returns the refusal.
  using TakeTokens = std::function<std::optional<HttpResponse>(const std::string& client, size_t body_bytes)>;

  /// The pool must be stopped before this object is destroyed. The other references must outlive this object.
  PageApi(ModelDesks& desks, WorkPool& pool, Charge charge, TakeTokens take_tokens);

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

 private:
  /// The functions with which an endpoint turns a body into an answer's text, for the model of a ModelDesk.
  struct Page {
    std::function<int64_t(const ModelDesk& desk, size_t body_bytes)> bytes;  // most bytes held, body included
    std::function<std::string(const ModelDesk& desk, const std::string& body, const std::stop_token& stop)> make;
    bool cheap = false;  // a short body takes below 1 ms, so it runs on the I/O thread
  };
  DataHandler OnPages(Page page);
  boost::asio::awaitable<std::optional<HttpResponse>> Make(const Page& page, HttpRequest& request,
                                                           HttpResponder& responder);

  HttpResponse Models(const HttpRequest& request, const std::string& id) const;
  HttpResponse TokenizerInfo(HttpRequest& request);

  ModelDesks& desks_;
  WorkPool& pool_;
  Charge charge_;
  TakeTokens take_tokens_;
  int64_t created_;
};

}  // namespace quire
