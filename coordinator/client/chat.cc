#include "coordinator/client/chat.h"

#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "comm/base/error.h"
#include "comm/base/exact_json.h"
#include "comm/base/regular_file.h"
#include "coordinator/client/event_stream.h"
#include "coordinator/client/http_client.h"
#include "coordinator/client/paste_input.h"
#include "coordinator/log/log.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kFirstWord{5};  // longest wait for a server's first answer
constexpr const char* kHelp =
    "  /system TEXT      what the assistant is told beforehand; without TEXT: nothing\n"
    "  /set NAME VALUE   a field of the requests, such as temperature 0.2, max_tokens 100; without VALUE: not sent\n"
    "  /retry            another answer to the last message\n"
    "  /undo             forget the last message and its answer\n"
    "  /reset            forget the conversation\n"
    "  /save FILE        write the conversation as JSON\n"
    "  /quit             end (also Ctrl-D); Ctrl-C stops an answer\n";

/// Prepares text from the server for output to the descriptor `stream`. On a terminal, escapes control characters,
/// which could change titles, the clipboard or other parts of the screen. Elsewhere returns the text unchanged.
std::string Foreign(const std::string& text, int stream) {
  return ::isatty(stream) == 0 ? text : LinesWithoutControls(text);
}

/// True when a conversation may be written to `path`: there is no such file, or the file has an earlier conversation.
bool IsFree(const std::string& path) {
  constexpr size_t kMostBytes = 64 << 20;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path))) return true;
  try {
    const Json there = ParseJson(RegularFile::Open(path, RegularFile::Links::kRefused).ReadAll(kMostBytes), path);
    return there.is_array() && std::ranges::all_of(there, [](const Json& message) {
             return message.is_object() && message.contains("role");
           });
  } catch (const Error&) {
    return false;
  }
}

/// Reads lines from a terminal, with editing and history, or from a pipe.
class Input {
 public:
  Input() : terminal_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) {
    std::setlocale(LC_CTYPE, "");  // libedit counts columns by the locale
    if (terminal_) pastes_.emplace();
  }
  bool terminal() const { return terminal_; }

  /// Returns the next line; nullopt at the end of the input.
  std::optional<std::string> Next() {
    std::string line;
    if (!terminal_) {
      if (!std::getline(std::cin, line)) return std::nullopt;
      return line;
    }
    const std::unique_ptr<char, decltype(&std::free)> typed(::readline("> "), &std::free);
    if (typed == nullptr) return std::nullopt;
    line = typed.get();
    if (!line.empty()) ::add_history(line.c_str());
    return PasteInput::Text(line);
  }

 private:
  bool terminal_;
  std::optional<PasteInput> pastes_;
};

/// An answer while it is received.
struct Answer {
  std::string text, problem;
  bool stopped = false;  // true after Ctrl-C
  int tokens = 0;
  std::optional<double> first_seconds;
  double seconds = 0;
  bool whole() const { return problem.empty() && !stopped; }
};

class Conversation {
 public:
  explicit Conversation(ChatCommand command)
      : command_(std::move(command)),
        server_(ParseServerAddress(command_.url, "URL")),
        endpoint_(server_.Resolve()),
        authorization_(AuthorizationFrom(command_.api_key_file)) {}

  int Run() {
    if (input_.terminal()) {
      if (!IsAnswered()) return 1;
      fmt::print("{} at {}; /help\n", command_.model.empty() ? "chat" : command_.model, command_.url);
    }
    while (const auto line = input_.Next()) {
      if (line->empty()) continue;
      if (line->starts_with('/')) {
        if (!Obey(*line)) break;
      } else {
        messages_.push_back({{"role", "user"}, {"content", *line}});
        Ask();
      }
    }
    if (input_.terminal()) fmt::print("\n");
    return last_was_whole_ ? 0 : 1;
  }

 private:
  /// Returns whether a server answers at the URL. Prints the problem if none does, or if a server refuses.
  bool IsAnswered() const {
    const ClientRequest request{server_, endpoint_, authorization_, "/v1/models", std::nullopt, kFirstWord};
    const OnBody whole;
    asio::io_context io;
    ClientAnswer answer;
    asio::co_spawn(io, Send(request, whole), [&](const std::exception_ptr&, ClientAnswer got) { answer = got; });
    io.run();
    if (answer.status == 200) return true;
    const bool gone = !answer.problem.empty();
    const char* remedy = gone ? "; `quire serve` starts a server, `quire chat URL` talks to another" : "";
    fmt::print(stderr, "{}{}\n", Foreign(gone ? answer.problem : RefusalOf(answer), STDERR_FILENO), remedy);
    return !gone;
  }

  /// Executes a command. Returns false to end the conversation.
  bool Obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string verb = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (verb == "/quit" || verb == "/exit") return false;
    if (verb == "/system") {
      command_.system = rest;
    } else if (verb == "/set") {
      Set(rest);
    } else if (verb == "/retry") {
      if (DropAnswer()) Ask();
    } else if (verb == "/undo") {
      if (DropAnswer()) messages_.erase(messages_.size() - 1);
    } else if (verb == "/reset") {
      messages_ = Json::array();
    } else if (verb == "/save") {
      Save(rest);
    } else {
      fmt::print(stderr, "{}{}", verb == "/help" ? "" : verb + " is no command:\n", kHelp);
    }
    return true;
  }

  /// Removes the last answer. Returns false when the conversation is empty.
  bool DropAnswer() {
    if (!messages_.empty() && messages_.back()["role"] == "assistant") messages_.erase(messages_.size() - 1);
    if (messages_.empty()) fmt::print(stderr, "nothing was said yet\n");
    return !messages_.empty();
  }

  void Set(const std::string& text) {
    const size_t space = text.find(' ');
    const std::string name = text.substr(0, space);
    if (name.empty()) {
      fmt::print(stderr, "{}\n", DumpExactJson(command_.fields));
    } else if (space == std::string::npos) {
      command_.fields.erase(name);
    } else {
      const std::string value = text.substr(space + 1);
      try {
        ParseJson(value, name);
        command_.fields[name] = ParseExactJson(value);
      } catch (const Error&) {
        command_.fields[name] = value;  // a plain word needs no quotes
      }
    }
  }

  void Save(const std::string& path) {
    if (!IsFree(path)) return fmt::print(stderr, "{} is there, and is no conversation: it stays as it is\n", path);
    std::ofstream out(path);
    out << DumpJson(Messages()) << '\n';
    out.close();
    fmt::print(stderr, "{} {}\n", out.good() ? "written to" : "cannot write", path);
  }

  Json Messages() const {
    Json all = Json::array();
    if (!command_.system.empty()) all.push_back({{"role", "system"}, {"content", command_.system}});
    for (const Json& message : messages_) all.push_back(message);
    return all;
  }

  void Ask() {
    Answer answer = Receive();
    if (!answer.text.empty() || answer.stopped) fmt::print("\n");
    if (!answer.problem.empty()) fmt::print(stderr, "{}\n", Foreign(answer.problem, STDERR_FILENO));
    if (answer.first_seconds && input_.terminal()) Count(answer);
    last_was_whole_ = answer.whole();
    if (!answer.text.empty()) {
      messages_.push_back({{"role", "assistant"}, {"content", std::move(answer.text)}});
    } else {
      messages_.erase(messages_.size() - 1);  // remove the unanswered message
    }
  }

  static void Count(const Answer& answer) {
    const double rest = answer.seconds - *answer.first_seconds;
    const std::string speed =
        answer.tokens > 1 && rest > 0 ? fmt::format(", {:.1f} tokens/s", (answer.tokens - 1) / rest) : "";
    fmt::print(stderr, "\x1b[2m{}first after {:.2f} s{}{}\x1b[0m\n",
               answer.tokens > 0 ? fmt::format("{} tokens, ", answer.tokens) : "", *answer.first_seconds, speed,
               answer.stopped ? ", stopped" : "");
  }

  Answer Receive() {
    OrderedJson body = command_.fields;
    body["messages"] = Messages();
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    if (!command_.model.empty()) body["model"] = command_.model;
    Answer answer;
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    asio::io_context io;
    asio::signal_set interrupt(io, SIGINT);
    interrupt.async_wait([&](const boost::system::error_code& error, int) {
      if (error) return;
      answer.stopped = true;
      io.stop();  // closes the connection, so the server stops generating
    });
    const std::function<void(const Json&)> on_event = [&](const Json& event) {
      if (event.contains("error")) answer.problem = DumpJson(event["error"]);
      if (event.contains("usage") && event["usage"].is_object())
        answer.tokens = event["usage"].value("completion_tokens", 0);
      Show(event, answer);
      if (!answer.first_seconds) answer.first_seconds = elapsed();
    };
    const ClientRequest request{server_, endpoint_, authorization_, "/v1/chat/completions", DumpExactJson(body)};
    const auto read = [&]() -> asio::awaitable<void> {
      const std::string problem = co_await ReadEvents(request, on_event);
      if (answer.problem.empty()) answer.problem = problem;
    };
    asio::co_spawn(io, read, [&](const std::exception_ptr& failed) {
      if (failed) answer.problem = "the answer cannot be read";
      interrupt.cancel();
    });
    io.run();
    answer.seconds = elapsed();
    return answer;
  }

  /// Prints the text that the event adds to the answer. Reasoning is dim, and is not part of the answer.
  void Show(const Json& event, Answer& answer) {
    if (!event.contains("choices") || event["choices"].empty()) return;
    const Json& delta = event["choices"][0].value("delta", Json::object());
    const auto text = [&](const char* field) {
      return delta.contains(field) && delta[field].is_string() ? delta[field].get<std::string>() : std::string();
    };
    const std::string thought = text("reasoning_content"), said = text("content");
    if (!thought.empty())
      fmt::print("{}{}{}", input_.terminal() ? "\x1b[2m" : "", Foreign(thought, STDOUT_FILENO),
                 input_.terminal() ? "\x1b[0m" : "");
    fmt::print("{}", Foreign(said, STDOUT_FILENO));
    std::fflush(stdout);
    answer.text += said;
  }

  ChatCommand command_;
  ServerAddress server_;
  asio::ip::tcp::endpoint endpoint_;
  std::string authorization_;
  Input input_;
  Json messages_ = Json::array();
  bool last_was_whole_ = true;
};

}  // namespace

int RunChat(ChatCommand command) { return Conversation(std::move(command)).Run(); }

}  // namespace quire
