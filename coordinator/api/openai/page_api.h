#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/http/routes.h"
#include "coordinator/api/http/work_pool.h"
#include "coordinator/api/openai/chat_pages.h"
#include "coordinator/api/openai/data_handler.h"
#include "coordinator/api/openai/text_pages.h"

namespace quire {

/// The endpoints of the data port that tell of the model and of texts as its tokens: nothing is generated. One thread:
/// the I/O thread; what grows with a body is made on the pool.
class PageApi {
 public:
  struct Options {
    std::string model_name;
    int vocab_size = 0, max_model_len = 0;
    SamplingDefaults defaults;         // for requests that set none
    std::vector<std::string> aliases;  // other names of the model
  };
  /// Holds so many bytes for a client, or says why not.
  using Charge =
      std::function<std::optional<HttpResponse>(ByteBudget::Lease& memory, const std::string& client, int64_t bytes)>;

  /// Takes what so many bytes of a body cost of a client's tokens, or says that there are none.
  using TakeTokens = std::function<std::optional<HttpResponse>(const std::string& client, size_t body_bytes)>;

  /// The pool must be stopped before this object goes; the other references outlive it.
  PageApi(Options options, const Tokenizer& tokenizer, const CallPreparer& preparer, WorkPool& pool, Charge charge,
          TakeTokens take_tokens);

  std::vector<Routes<DataHandler>::Route> MakeRoutes();

 private:
  /// From a body to an answer's text.
  struct Page {
    std::function<int64_t(size_t body_bytes)> bytes;  // that the work and its answer may hold, the body counted in
    std::function<std::string(const std::string& body, const std::stop_token& stop)> make;
    bool cheap = false;  // a short body takes less than a millisecond: no thread need be woken for it
  };
  DataHandler OnPages(Page page);
  boost::asio::awaitable<std::optional<HttpResponse>> Make(const Page& page, HttpRequest& request,
                                                           HttpResponder& responder);

  HttpResponse Models(const HttpRequest& request, const std::string& id) const;
  HttpResponse TokenizerInfo(HttpRequest& request);

  Options options_;
  const Tokenizer& tokenizer_;
  WorkPool& pool_;
  Charge charge_;
  TakeTokens take_tokens_;
  TextPages text_;
  ChatPages chat_;
  int64_t created_;
};

}  // namespace quire
