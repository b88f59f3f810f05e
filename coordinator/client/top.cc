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
#include <limits>
#include <optional>
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

constexpr auto kPatience = std::chrono::seconds(5);  // for one answer
constexpr JsonLimits kPageLimits{.max_depth = 64, .max_nodes = 1'000'000};

/// Requests answers from the admin port.
class AdminPort {
 public:
  explicit AdminPort(const TopCommand& command)
      : server_(ParseServerAddress(command.url, "URL")),
        endpoint_(server_.Resolve()),
        authorization_(AuthorizationFrom(command.token_file)) {}

  /// Reads the server's state with at most `most` requests. Throws Error.
  TopReading Read(size_t most) const {
    TopReading reading{Get("/admin/status"), Get(fmt::format("/admin/requests?limit={}", most))};
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
  /// Waits for the time to pass, for a key, or for a new window size. Returns false when it is time to end.
  bool Wait(double seconds) const {
    pollfd ready[2] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
    if (::poll(ready, 2, static_cast<int>(seconds * 1000)) <= 0) return true;
    if (ready[1].revents != 0) {
      signalfd_siginfo signal{};
      return ::read(signals_, &signal, sizeof(signal)) == sizeof(signal) && signal.ssi_signo == SIGWINCH;
    }
    char key = 0;
    return ::read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
  }

 private:
  termios before_{};
  int signals_ = -1;
};

int WatchPort(const AdminPort& port, double interval) {
  std::optional<TopReading> before, now = port.Read(Screen::Size().ws_row);
  const Screen screen;
  std::string problem;
  for (;;) {
    const winsize size = Screen::Size();
    std::vector<std::string> lines = TopView(*now, before ? &*before : nullptr, size.ws_col, size.ws_row - 1u);
    lines.push_back((problem.empty() ? "q ends" : "the server does not answer: " + problem).substr(0, size.ws_col));
    Screen::Draw(lines);
    if (!screen.Wait(interval)) return 0;
    try {
      TopReading next = port.Read(size.ws_row);
      before = std::exchange(now, std::move(next));
      problem.clear();
    } catch (const Error& error) {
      problem = WithoutControls(error.what());
    }
  }
}

}  // namespace

int RunTop(const TopCommand& command) {
  const AdminPort port(command);
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) return WatchPort(port, command.interval_seconds);
  constexpr size_t kAll = 1000, kUnbounded = std::numeric_limits<size_t>::max();
  const TopReading before = port.Read(0);
  ::poll(nullptr, 0, static_cast<int>(command.interval_seconds * 1000));
  for (const std::string& line : TopView(port.Read(kAll), &before, kUnbounded, kUnbounded)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace quire
