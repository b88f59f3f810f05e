#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "comm/grammar/grammar_source.h"
#include "comm/grammar/vocabulary.h"

namespace quire {

/// Compiles clients' grammars on trial in a separate process, so that an expensive or harmful grammar hurts only that
/// process. The process starts with the first grammar. If the process was killed, a new process starts with the next
/// grammar. Call Try from one thread. That thread must live as long as the object is used, because the process dies
/// with the thread that started it.
class GrammarTrials {
 public:
  struct Limits {
    std::chrono::nanoseconds processor = std::chrono::seconds(2);  // processor time for one grammar
    std::chrono::nanoseconds wall = std::chrono::seconds(60);
  };
  /// command: the command line of a program that behaves like CompileGrammars.
  GrammarTrials(std::shared_ptr<const Vocabulary> vocabulary, std::vector<std::string> command, Limits limits);
  ~GrammarTrials() { End(); }
  GrammarTrials(const GrammarTrials&) = delete;
  GrammarTrials& operator=(const GrammarTrials&) = delete;

  /// Compiles the grammar on trial. Throws Error with the reason, without a field in its text, when the grammar does
  /// not compile within the limits; Stopped when `stop` is requested; ApiError 503 when this machine has no time or no
  /// process for the trial.
  void Try(const GrammarSource& source, const std::stop_token& stop);

  /// Ends the process, which frees its memory, unless a trial is under way. Any thread may call it.
  void EndIfIdle();

  /// Returns the processor time of all trials since the start, including the starts of their processes.
  std::chrono::nanoseconds spent() const { return spent_; }

  /// Returns the compiler's process id; 0: no process.
  pid_t pid() const { return pid_; }

 private:
  void Start(const std::stop_token& stop);
  std::optional<std::string> Ask(const GrammarSource& source, const std::stop_token& stop);
  std::string End();
  [[noreturn]] void NoProcess(int error);

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<std::string> command_;
  Limits limits_;
  std::mutex in_use_;  // held during a trial and while the process is ended
  pid_t pid_ = 0;
  int fd_ = -1;
  uint64_t last_ticket_ = 0;
  std::chrono::nanoseconds spent_{0};
  bool told_of_end_ = false, told_of_lack_ = false;  // true: logged already; clients could fill the log
};

}  // namespace quire
