#include "coordinator/client/batch_run.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/client/batch_file.h"
#include "coordinator/client/http_client.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kErrorAsValue = asio::as_tuple(asio::use_awaitable);
// The longest pauses before another try, in seconds: a pause that this program chooses, and a pause that the server
// asks for.
constexpr int kLongestPause = 30, kLongestPauseAsked = 600;

/// Shows the progress of a run on standard error.
class Progress {
 public:
  Progress(size_t total, size_t done_before) : total_(total), done_(done_before), done_before_(done_before) {}

  void Answered(bool well, int64_t tokens) {
    ++done_;
    failed_ += !well;
    tokens_ += tokens;
  }
  size_t failed() const { return failed_; }
  size_t done() const { return done_; }
  std::chrono::milliseconds interval() const { return std::chrono::milliseconds(terminal_ ? 200 : 10'000); }

  void Show(size_t under_way) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::string text = fmt::format("{} of {} requests answered", done_, total_);
    if (failed_ > 0) text += fmt::format(", {} refused or lost", failed_);
    text += fmt::format(", {} under way, {:.0f} tokens/s", under_way, static_cast<double>(tokens_) / seconds);
    if (const size_t here = done_ - done_before_; here > 0 && done_ < total_)
      text += fmt::format(", {:.0f} s left", seconds * static_cast<double>(total_ - done_) / static_cast<double>(here));
    if (!terminal_) return fmt::print(stderr, "{}\n", text);
    constexpr size_t kCells = 30;
    const size_t filled = kCells * done_ / total_;
    text = fmt::format("[{:#<{}}{:.<{}}] {}", "", filled, "", kCells - filled, text);
    if (winsize size{}; ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
      // The text must fit one line, because the next text overwrites this line.
      text.resize(std::min<size_t>(text.size(), size.ws_col - 1u));
    fmt::print(stderr, "\r{}\x1b[K", text);
    std::fflush(stderr);
  }
  void End() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  const Clock::time_point begin_ = Clock::now();
  size_t total_, done_, done_before_, failed_ = 0;
  int64_t tokens_ = 0;
};

/// True when another try may succeed, after a network error or a refusal for lack of capacity.
bool IsForLater(const ClientAnswer& answer) { return !answer.problem.empty() || answer.FoundNoRoom(); }

int64_t TokensOf(const Json& body) {
  if (!body.is_object() || !body.contains("usage") || !body["usage"].is_object()) return 0;
  const auto tokens = body["usage"].find("completion_tokens");
  return tokens != body["usage"].end() && tokens->is_number_integer() ? tokens->get<int64_t>() : 0;
}

class BatchRun {
 public:
  explicit BatchRun(const BatchCommand& command)
      : command_(command),
        requests_(ReadAsSettings([&] { return BatchFile(command.input); })),
        answers_(command.output, command.input),
        server_(ParseServerAddress(command.url, "--url")),
        endpoint_(server_.Resolve()),
        authorization_(AuthorizationFrom(command.api_key_file)) {
    for (const BatchFile::Entry& entry : requests_.entries())
      if (!answers_.answered().contains(entry.custom_id)) to_send_.push_back(&entry);
  }

  int Run() {
    const size_t total = requests_.entries().size();
    if (to_send_.size() < total)
      fmt::print(stderr, "{} of {} requests were answered before\n", total - to_send_.size(), total);
    Progress progress(total, total - to_send_.size());
    progress_ = &progress;
    asio::signal_set interrupt(io_, SIGINT, SIGTERM);
    interrupt.async_wait([&](const boost::system::error_code& error, int) {
      if (!error) io_.stop();  // connections close, so the server drops their requests
    });
    unfinished_ = std::min(to_send_.size(), static_cast<size_t>(command_.max_concurrency));
    for (size_t i = unfinished_; i > 0; --i) {
      asio::co_spawn(io_, SendInTurn(), [&](const std::exception_ptr& failure) {
        if (failure) failure_ = failure;
        if (--unfinished_ == 0 || failure) io_.stop();
      });
    }
    if (unfinished_ > 0) {
      asio::co_spawn(io_, Watch(), asio::detached);
      io_.run();
    }
    progress.End();
    if (failure_) std::rethrow_exception(failure_);
    return Conclude(total);
  }

 private:
  int Conclude(size_t total) const {
    const size_t left = total - progress_->done(), failed = progress_->failed();
    fmt::print(stderr, "{} of {} requests answered, in {}\n", progress_->done() - failed, total, command_.output);
    if (failed > 0)
      fmt::print(stderr, "{} refused or lost; their lines say why, and another run tries them again\n", failed);
    if (left > 0) fmt::print(stderr, "interrupted with {} left: another run goes on with them\n", left);
    return failed + left > 0 ? 1 : 0;
  }

  asio::awaitable<void> Watch() {
    asio::steady_timer timer(io_);
    for (;;) {
      timer.expires_after(progress_->interval());
      co_await timer.async_wait(kErrorAsValue);
      progress_->Show(under_way_);
    }
  }

  asio::awaitable<void> SendInTurn() {
    while (next_ < to_send_.size()) {
      const BatchFile::Entry& entry = *to_send_[next_++];
      ++under_way_;
      const ClientAnswer answer = co_await SendEntry(entry);
      --under_way_;
      Write(entry, answer);
    }
  }

  asio::awaitable<ClientAnswer> SendEntry(const BatchFile::Entry& entry) {
    const ClientRequest request{server_, endpoint_, authorization_, entry.url, requests_.BodyOf(entry)};
    const OnBody whole;
    asio::steady_timer pause(io_);
    for (int attempt = 0;; ++attempt) {
      ClientAnswer answer = co_await Send(request, whole);
      if (attempt == command_.retries || !IsForLater(answer)) co_return answer;
      const int own = std::min(kLongestPause, 1 << std::min(attempt, 10));
      pause.expires_after(std::chrono::seconds(std::min(answer.retry_after_seconds.value_or(own), kLongestPauseAsked)));
      co_await pause.async_wait(kErrorAsValue);
    }
  }

  void Write(const BatchFile::Entry& entry, const ClientAnswer& answer) {
    const std::string id = "batch_req_" + entry.custom_id;
    int64_t tokens = 0;
    if (answer.problem.empty()) {
      std::string body;
      try {
        tokens = TokensOf(ParseJson(answer.body, "an answer", kBodyLimits));
        body = OnOneLine(answer.body);
      } catch (const Error&) {
        body = DumpJson(answer.body);  // store as a JSON string
      }
      answers_.Add(BatchAnswerLine(id, entry.custom_id, answer.status, answer.request_id, body));
    } else {
      answers_.Add(BatchErrorLine(id, entry.custom_id, "connection_error", answer.problem));
    }
    progress_->Answered(answer.problem.empty() && answer.status == 200, tokens);
  }

  const BatchCommand& command_;
  BatchFile requests_;
  BatchAnswers answers_;
  ServerAddress server_;
  asio::ip::tcp::endpoint endpoint_;
  std::string authorization_;
  std::vector<const BatchFile::Entry*> to_send_;
  size_t next_ = 0, under_way_ = 0, unfinished_ = 0;
  Progress* progress_ = nullptr;
  std::exception_ptr failure_;
  asio::io_context io_;
};

}  // namespace

int RunBatch(const BatchCommand& command) {
  BatchCommand whole = command;
  if (whole.output.empty()) {
    const std::string& input = whole.input;
    whole.output = (input.ends_with(".jsonl") ? input.substr(0, input.size() - 6) : input) + ".answers.jsonl";
  }
  if (whole.output == whole.input) FailSettings("--output {}: that is the file of the requests", whole.output);
  return BatchRun(whole).Run();
}

}  // namespace quire
