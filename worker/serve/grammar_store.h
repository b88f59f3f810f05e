#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/grammar/grammar_compiler.h"
#include "comm/grammar/grammar_memory.h"
#include "comm/wire/messages.h"
#include "worker/engine/token_constraint.h"

namespace quire {

/// Compiles and keeps the grammars of a rank's sequences. A thread with low priority compiles, so that the computing
/// thread goes first. A constraint that is used before its grammar is compiled waits for the grammar.
class GrammarStore {
 public:
  GrammarStore(Vocabulary vocabulary, int vocab_size, const GrammarMemory& memory = {});
  ~GrammarStore();

  /// Returns the constraint of a new sequence that already has `num_given` generated tokens. Does not wait: if the
  /// grammar is not compiled yet, it is compiled before all grammars that are only prepared. `num_constrained` counts
  /// the sequences with a grammar, this one included. The larger this number, the less memory and work each matcher may
  /// use.
  std::shared_ptr<TokenConstraint> Constrain(const GrammarSource& source, size_t num_given, size_t num_constrained);

  /// Compiles a grammar and keeps it, so that later sequences need not wait for it. TakeReports reports the completion.
  void Prepare(const GrammarMessage& order);
  /// Drops the grammar that was prepared under this ticket.
  void Forget(uint64_t ticket);
  /// True if a new sequence with this grammar need not wait.
  bool IsReady(const GrammarSource& source) { return Find(source) != nullptr; }
  /// Takes the reports for the coordinator that have accumulated since the last call.
  std::vector<GrammarReady> TakeReports();
  /// Sets the function that the store's thread calls when a report is ready. Call this before the first Prepare.
  void set_on_report(std::function<void()> on_report) { on_report_ = std::move(on_report); }

 private:
  struct Prepared {
    GrammarDigest digest;
    std::shared_ptr<const CompiledGrammar> grammar;
  };
  void Run(const Vocabulary& vocabulary, int vocab_size, int64_t cache_bytes);
  std::shared_ptr<const CompiledGrammar> Find(const GrammarSource& source);
  void Enqueue(std::function<void(GrammarCompiler&)> task, bool first = false);

  const int64_t pool_states_;  // parser states that are divided among answers (BoundsOf)
  std::function<void()> on_report_ = [] {};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void(GrammarCompiler&)>> tasks_;  // guarded by mutex_, like the next three members
  std::vector<GrammarReady> reports_;
  std::map<uint64_t, Prepared> prepared_;  // keyed by ticket
  GrammarCompiler* compiler_ = nullptr;    // owned by the thread; null until the thread has made the compiler
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
