#include "coordinator/client/warm.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/printable.h"
#include "coordinator/client/http_client.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr JsonLimits kPromptLimits{.max_depth = 64, .max_nodes = 10'000'000};
constexpr int kTries = 10;                                         // tries of a prompt refused for lack of capacity
constexpr int kPauseSeconds = 1, kLongestServerPauseSeconds = 30;  // seconds between tries

bool IsTokens(const Json& json) {
  return json.is_array() && !json.empty() &&
         std::ranges::all_of(json, [](const Json& t) { return t.is_number_integer(); });
}

std::vector<WarmRequest> ReadPrompts(std::istream& in, const WarmCommand& command) {
  std::vector<WarmRequest> requests;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    requests.push_back(WarmRequestOf(line, command.model, fmt::format("{}: line {}", command.input, number)));
  }
  if (in.bad()) Fail("cannot read {}", command.input);
  if (requests.empty()) Fail("{}: no prompts", command.input);
  return requests;
}

std::vector<WarmRequest> PromptsOf(const WarmCommand& command) {
  if (command.input == "-") return ReadPrompts(std::cin, command);
  std::ifstream file(command.input);
  if (!file) Fail("cannot read {}", command.input);
  return ReadPrompts(file, command);
}

class WarmRun {
 public:
  explicit WarmRun(const WarmCommand& command)
      : command_(command),
        requests_(ReadAsSettings([&] { return PromptsOf(command); })),
        server_(ParseServerAddress(command.url, "--url")),
        endpoint_(server_.Resolve()),
        authorization_(AuthorizationFrom(command.api_key_file)) {}

  int Run() {
    const auto begin = std::chrono::steady_clock::now();
    size_t left = std::min(requests_.size(), static_cast<size_t>(command_.max_concurrency));
    std::exception_ptr failure;
    for (size_t i = left; i > 0; --i) {
      asio::co_spawn(io_, SendInTurn(), [&](const std::exception_ptr& thrown) {
        if (thrown) failure = thrown;
        if (--left == 0 || thrown) io_.stop();
      });
    }
    io_.run();
    if (failure) std::rethrow_exception(failure);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} of {} prompts are cached: {} tokens, of which {} were cached before, in {:.1f} s\n", warmed_,
               requests_.size(), tokens_, cached_, took.count());
    return warmed_ == requests_.size() ? 0 : 1;
  }

 private:
  asio::awaitable<void> SendInTurn() {
    while (next_ < requests_.size()) {
      const size_t index = next_++;
      const ClientAnswer answer = co_await SendOne(requests_[index]);
      Note(index, answer);
    }
  }

  asio::awaitable<ClientAnswer> SendOne(const WarmRequest& prompt) {
    const ClientRequest request{server_, endpoint_, authorization_, prompt.path, prompt.body};
    const OnBody whole;
    asio::steady_timer pause(io_);
    for (int attempt = 1;; ++attempt) {
      ClientAnswer answer = co_await Send(request, whole);
      if (!answer.FoundNoRoom() || attempt == kTries) co_return answer;
      const int seconds = std::min(answer.retry_after_seconds.value_or(kPauseSeconds), kLongestServerPauseSeconds);
      pause.expires_after(std::chrono::seconds(seconds));
      co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
    }
  }

  void Note(size_t index, const ClientAnswer& answer) {
    if (!answer.problem.empty() || answer.status != 200) {
      const std::string why = answer.problem.empty() ? RefusalOf(answer) : answer.problem;
      fmt::print(stderr, "prompt {}: {}\n", index + 1, WithoutControls(why));
      return;
    }
    const Json usage = ParseJson(answer.body, "an answer", kPromptLimits).value("usage", Json::object());
    ++warmed_;
    tokens_ += usage.value("prompt_tokens", int64_t{0});
    const Json details = usage.value("prompt_tokens_details", Json());
    if (details.is_object()) cached_ += details.value("cached_tokens", int64_t{0});
  }

  const WarmCommand& command_;
  const std::vector<WarmRequest> requests_;
  const ServerAddress server_;
  const asio::ip::tcp::endpoint endpoint_;
  const std::string authorization_;
  size_t next_ = 0, warmed_ = 0;
  int64_t tokens_ = 0, cached_ = 0;
  asio::io_context io_;
};

}  // namespace

WarmRequest WarmRequestOf(const std::string& line, const std::string& model, const std::string& where) {
  const Json json = ParseJson(line, where, kPromptLimits);
  if (!json.is_string() && !IsTokens(json) && !json.is_object())
    Fail("{}: a prompt is a JSON text, a list of token ids, or the body of a request", where);
  Json body = json.is_object() ? json : Json{{"prompt", json}};
  if (!body.contains("messages") && !body.contains("prompt")) Fail("{}: give `messages`, or a `prompt`", where);
  for (const char* field : {"stream", "stream_options", "n", "best_of", "max_completion_tokens", "min_tokens", "stop"})
    body.erase(field);
  body["max_tokens"] = 1;
  if (!model.empty() && !body.contains("model")) body["model"] = model;
  return {body.contains("messages") ? "/v1/chat/completions" : "/v1/completions", DumpJson(body)};
}

int RunWarm(const WarmCommand& command) { return WarmRun(command).Run(); }

}  // namespace quire
