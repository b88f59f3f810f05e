#include "coordinator/client/top.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/client/http_client.h"
#include "coordinator/client/top_view.h"
#include "coordinator/log/log.h"

namespace quire {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kMostRequests = 1000;               // the most requests that the admin port lists
constexpr size_t kMostBatches = 20;                  // batches that a screen has room for
constexpr auto kPatience = std::chrono::seconds(5);  // timeout of one answer
constexpr JsonLimits kPageLimits{.max_depth = 64, .max_nodes = 1'000'000};

/// Requests answers from the admin port.
class AdminPort {
 public:
  explicit AdminPort(const TopCommand& command)
      : server_(ParseServerAddress(command.url, "URL")),
        endpoint_(server_.Resolve()),
        authorization_(AuthorizationFrom(command.token_file)) {}

  /// Reads the server's state with at most `most` requests. Throws Error when the server does not answer with JSON.
  TopReading Read(size_t most) const {
    TopReading reading{Get("/admin/status"), Get(fmt::format("/admin/requests?limit={}", most))};
    if (reading.status.is_object() && reading.status.contains("batches"))
      reading.batches = Get(fmt::format("/admin/batches?limit={}", kMostBatches));
    reading.seconds = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    return reading;
  }

 private:
  Json Get(const std::string& path) const {
    const ClientRequest request{server_, endpoint_, authorization_, path, std::nullopt};
    const OnBody whole;
    asio::io_context io;
    std::optional<ClientAnswer> answer;
    asio::co_spawn(io, Send(request, whole), [&](const std::exception_ptr&, ClientAnswer got) { answer = got; });
    io.run_for(kPatience);
    if (!answer) Fail("{}{}: no answer within {} s", server_.authority(), path, kPatience.count());
    if (!answer->problem.empty()) Fail("{}", answer->problem);
    if (answer->status != 200) {
      Fail("{}{}: {}{}", server_.authority(), path, RefusalOf(*answer),
           answer->status == 404 ? "; is this the admin port?" : "");
    }
    return ParseJson(answer->body, path, kPageLimits);
  }

  ServerAddress server_;
  asio::ip::tcp::endpoint endpoint_;
  std::string authorization_;
};

/// A terminal in which keys are read one by one. The destructor restores the terminal.
class Screen {
 public:
  Screen() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) ::sigaddset(&watched, signal);
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC);
    fmt::print("\x1b[?1049h\x1b[?25l");
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    fmt::print("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    ::close(signals_);
  }

  static winsize Size() {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {24, 80, 0, 0};
    return size;
  }
  static void Draw(const std::vector<std::string>& lines) {
    std::string text = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i) text += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
    fmt::print("{}\x1b[J", text);
    std::fflush(stdout);
  }
  /// Waits until the time has passed, a key is pressed, or the window's size changes. Returns the bytes of the keys;
  /// nullopt when the program must end.
  std::optional<std::string> Wait(double seconds) const {
    pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
    if (::poll(ready, 2, static_cast<int>(seconds * 1000)) <= 0) return "";
    if (ready[1].revents != 0) {
      signalfd_siginfo signal{};
      const bool resized = ::read(signals_, &signal, sizeof(signal)) == sizeof(signal) && signal.ssi_signo == SIGWINCH;
      return resized ? std::optional<std::string>("") : std::nullopt;
    }
    char keys[64];
    const ssize_t got = ::read(STDIN_FILENO, keys, sizeof(keys));
    if (got <= 0) return std::nullopt;
    return std::string(keys, static_cast<size_t>(got));
  }

 private:
  termios before_{};
  int signals_ = -1;
};

constexpr const char* kOrders[] = {"state", "age", "prompt", "output", "blocks", "client"};  // names of TopOrder

/// The user's choices: the order of the list, and the position in the list.
struct Choice {
  TopOrder order = TopOrder::kState;
  size_t first = 0;  // index of the request at the top of the list

  /// Executes the keys, one after another. `requests`: number of requests in the list. Returns false when a key ends
  /// the view.
  bool Obey(std::string keys, size_t requests) {
    const auto page = static_cast<int64_t>(std::max(1, Screen::Size().ws_row / 2));
    const auto all = static_cast<int64_t>(requests);
    const std::pair<const char*, int64_t> moves[] = {
        {"\x1b[A", -1},    {"k", -1},        {"\x1b[B", 1},   {"j", 1},       {"\x1b[5~", -page},
        {"\x1b[6~", page}, {"\x1b[H", -all}, {"\x1b[F", all}, {"\x1bOA", -1}, {"\x1bOB", 1}};
    while (!keys.empty()) {
      const char key = keys.front();
      if (key == 'q' || key == 'Q') return false;
      if (key == 's') order = static_cast<TopOrder>((static_cast<size_t>(order) + 1) % std::size(kOrders));
      if (key == 's') first = 0;
      const auto move = std::ranges::find_if(moves, [&](const auto& one) { return keys.starts_with(one.first); });
      if (move != std::end(moves)) {
        const int64_t moved = static_cast<int64_t>(first) + move->second;
        first = static_cast<size_t>(std::clamp<int64_t>(moved, 0, std::max<int64_t>(0, all - 1)));
        keys.erase(0, std::string_view(move->first).size());
      } else {
        keys.erase(0, 1);
      }
    }
    return true;
  }

  std::string Line(size_t requests) const {
    std::string line = fmt::format("q ends, s sorts: by {}", kOrders[static_cast<size_t>(order)]);
    if (requests > 0) line += fmt::format("; arrows scroll: {} of {}", first + 1, requests);
    return line;
  }
};

size_t RequestsOf(const TopReading& reading) {
  return reading.requests.is_object() ? reading.requests.value("requests", Json::array()).size() : 0;
}

int WatchPort(const AdminPort& port, double interval) {
  std::optional<TopReading> before, now = port.Read(kMostRequests);
  const Screen screen;
  std::string problem;
  Choice choice;
  const auto period = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
  auto next_reading = Clock::now() + period;
  for (;;) {
    const winsize size = Screen::Size();
    const size_t requests = RequestsOf(*now);
    choice.first = std::min(choice.first, requests == 0 ? 0 : requests - 1);
    std::vector<std::string> lines =
        TopView(*now, before ? &*before : nullptr, {size.ws_col, size.ws_row - 1u, choice.order, choice.first});
    lines.push_back(
        (problem.empty() ? choice.Line(requests) : "the server does not answer: " + problem).substr(0, size.ws_col));
    Screen::Draw(lines);
    const double left = std::chrono::duration<double>(next_reading - Clock::now()).count();
    const std::optional<std::string> keys = screen.Wait(std::max(0.0, left));
    if (!keys || !choice.Obey(*keys, requests)) return 0;
    if (Clock::now() < next_reading) continue;
    try {
      TopReading next = port.Read(kMostRequests);
      before = std::exchange(now, std::move(next));
      problem.clear();
    } catch (const Error& error) {
      problem = WithoutControls(error.what());
    }
    next_reading = Clock::now() + period;
  }
}

}  // namespace

int RunTop(const TopCommand& command) {
  const AdminPort port(command);
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) return WatchPort(port, command.interval_seconds);
  constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
  const TopReading before = port.Read(0);
  ::poll(nullptr, 0, static_cast<int>(command.interval_seconds * 1000));
  for (const std::string& line : TopView(port.Read(kMostRequests), &before, {kUnbounded, kUnbounded}))
    fmt::print("{}\n", line);
  return 0;
}

}  // namespace quire
