#include "coordinator/bench/serve_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/percentile.h"
#include "comm/base/printable.h"
#include "coordinator/bench/random_prompt.h"
#include "coordinator/bench/stream_client.h"

namespace quire {

namespace asio = boost::asio;

namespace {

/// Returns a request without its body. Everything else is the same for all requests.
ClientRequest RequestTo(const ServeBench& bench) {
  const ServerAddress server = ParseServerAddress(bench.base_url, "--base-url");
  return {server, server.Resolve(), AuthorizationFrom(bench.api_key_file), "/v1/completions", ""};
}

std::string BodyOf(const ServeBench& bench, int index) {
  const uint64_t seed = bench.seed * 1'000'003 + static_cast<uint64_t>(index);
  Json body = {{"prompt", RandomPrompt(seed, bench.input_len, bench.vocab_size)},
               {"max_tokens", bench.output_len},
               {"temperature", 0},
               {"ignore_eos", true},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (!bench.model.empty()) body["model"] = bench.model;
  return DumpJson(body);
}

/// Sends all requests on one thread.
class Load {
 public:
  explicit Load(const ServeBench& bench)
      : bench_(bench), request_(RequestTo(bench)), times_(static_cast<size_t>(bench.num_prompts)) {
    std::mt19937_64 random(bench.seed);
    std::exponential_distribution<double> gap(bench.request_rate > 0 ? bench.request_rate : 1);
    double at = 0;
    for (int i = 0; i < bench.num_prompts; ++i) {
      starts_.push_back(at);
      if (bench.request_rate > 0) at += gap(random);
      bodies_.push_back(BodyOf(bench, i));
    }
  }

  /// Runs the load. Returns the seconds until the last stream ended.
  double Run() {
    begin_ = std::chrono::steady_clock::now();
    const int takers =
        bench_.max_concurrency > 0 ? std::min(bench_.max_concurrency, bench_.num_prompts) : bench_.num_prompts;
    for (int i = 0; i < takers; ++i) asio::co_spawn(io_, TakeRequests(), asio::detached);
    io_.run();
    if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:20}\r", "");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const std::vector<StreamTimes>& times() const { return times_; }

 private:
  /// Sends one request after another, none before its start time, until none is left.
  asio::awaitable<void> TakeRequests() {
    while (next_ < bodies_.size()) {
      const size_t mine = next_++;
      asio::steady_timer timer(io_, begin_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                 std::chrono::duration<double>(starts_[mine])));
      co_await timer.async_wait(asio::use_awaitable);
      ClientRequest request = request_;
      request.body = std::move(bodies_[mine]);
      co_await TimeStream(std::move(request), times_[mine]);
      ++done_;
      if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{} of {} done", done_, times_.size());
    }
  }

  const ServeBench& bench_;
  const ClientRequest request_;
  asio::io_context io_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<double> starts_;  // seconds after begin_
  std::vector<std::string> bodies_;
  std::vector<StreamTimes> times_;
  size_t next_ = 0, done_ = 0;
};

/// Latencies in seconds and the number of tokens of the completed requests, and the problems of the failed requests.
struct Latencies {
  std::vector<double> first, per_token, gaps, whole;
  int64_t tokens = 0;
  std::vector<std::string> problems;
};

Latencies LatenciesOf(const std::vector<StreamTimes>& all) {
  Latencies l;
  for (const StreamTimes& t : all) {
    if (!t.problem.empty()) {
      l.problems.push_back(t.problem);
      continue;
    }
    l.first.push_back(t.events.front());
    l.whole.push_back(t.end);
    l.tokens += t.tokens;
    if (t.tokens > 1) l.per_token.push_back((t.events.back() - t.events.front()) / (t.tokens - 1));
    for (size_t i = 1; i < t.events.size(); ++i) l.gaps.push_back(t.events[i] - t.events[i - 1]);
  }
  return l;
}

Json PercentilesJson(const std::vector<double>& seconds) {
  if (seconds.empty()) return nullptr;
  return {{"p50", Percentile(seconds, 0.5)}, {"p90", Percentile(seconds, 0.9)}, {"p99", Percentile(seconds, 0.99)}};
}

/// Returns a JSON entry for each completed request, from which a reader can plot distributions.
Json RequestsOf(const Latencies& l) {
  Json list = Json::array();
  for (size_t i = 0; i < l.first.size(); ++i)
    list.push_back({{"first_token_seconds", l.first[i]}, {"seconds", l.whole[i]}});
  return list;
}

void PrintRow(const char* name, const std::vector<double>& seconds) {
  if (seconds.empty()) return;
  fmt::print("{:24}{:10.1f}{:10.1f}{:10.1f}\n", name, Percentile(seconds, 0.5) * 1e3, Percentile(seconds, 0.9) * 1e3,
             Percentile(seconds, 0.99) * 1e3);
}

}  // namespace

int RunServeBench(const ServeBench& bench) {
  Load load(bench);
  const double seconds = load.Run();
  const Latencies l = LatenciesOf(load.times());
  const double output = static_cast<double>(l.tokens) / seconds;
  const double total =
      (static_cast<double>(l.tokens) + static_cast<double>(l.first.size()) * bench.input_len) / seconds;
  if (bench.json) {
    fmt::print("{}\n", DumpJson({{"seconds", seconds},
                                 {"completed", l.first.size()},
                                 {"failed", l.problems.size()},
                                 {"output_tokens_per_second", output},
                                 {"total_tokens_per_second", total},
                                 {"first_token_seconds", PercentilesJson(l.first)},
                                 {"per_token_seconds", PercentilesJson(l.per_token)},
                                 {"gap_seconds", PercentilesJson(l.gaps)},
                                 {"request_seconds", PercentilesJson(l.whole)},
                                 {"requests", RequestsOf(l)}}));
  } else {
    fmt::print("{} requests of {} + {} tokens in {:.2f} s, {} failed\n", bench.num_prompts, bench.input_len,
               bench.output_len, seconds, l.problems.size());
    fmt::print("output {:.1f} tok/s, total {:.1f} tok/s\n", output, total);
    fmt::print("{:24}{:>10}{:>10}{:>10}\n", "milliseconds", "p50", "p90", "p99");
    PrintRow("first token", l.first);
    PrintRow("each token after it", l.per_token);
    PrintRow("gap between tokens", l.gaps);
    PrintRow("whole request", l.whole);
  }
  if (l.problems.empty()) return 0;
  fmt::print(stderr, "{} of {} requests failed; the first one: {}\n", l.problems.size(), bench.num_prompts,
             WithoutControls(l.problems.front()));
  return 1;
}

}  // namespace quire
