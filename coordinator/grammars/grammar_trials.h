#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "comm/grammar/grammar_source.h"
#include "comm/grammar/vocabulary.h"

namespace quire {

/// Compiles grammars of strangers on trial, in a process of its own: what one of them costs or breaks there, it costs
/// and breaks nobody else. The process starts with the first grammar, and again after one that it was ended for.
/// One thread at a time, which must live as long as this object is used: the process ends with it.
class GrammarTrials {
 public:
  struct Limits {
    std::chrono::nanoseconds processor = std::chrono::seconds(2);  // of a core, for one grammar
    std::chrono::nanoseconds wall = std::chrono::seconds(60);
  };
  /// command: of a program that behaves like CompileGrammars.
  GrammarTrials(std::shared_ptr<const Vocabulary> vocabulary, std::vector<std::string> command, Limits limits);
  ~GrammarTrials() { End(); }
  GrammarTrials(const GrammarTrials&) = delete;
  GrammarTrials& operator=(const GrammarTrials&) = delete;

  /// Returns when the grammar can be kept to by whoever compiles it within the limits. Throws Error, which begins with
  /// no name of a field, when it cannot; Stopped; and ApiError 503 when this machine has no time or no process for it.
  void Try(const GrammarSource& source, const std::stop_token& stop);

  /// 0: there is none.
  pid_t pid() const { return pid_; }

 private:
  void Start(const std::stop_token& stop);
  std::optional<std::string> Ask(const GrammarSource& source, const std::stop_token& stop);
  std::string End();
  [[noreturn]] void NoProcess(int error);

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<std::string> command_;
  Limits limits_;
  pid_t pid_ = 0;
  int fd_ = -1;
  uint64_t last_ticket_ = 0;
  bool told_of_end_ = false, told_of_lack_ = false;  // in the log: strangers could fill it
};

}  // namespace quire
