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
#include "comm/wire/messages.h"
#include "worker/engine/token_constraint.h"

namespace quire {

/// The grammars of a rank's sequences. They are compiled on a thread of their own, which gives way to the one that
/// computes; who needs one before it is ready waits.
class GrammarStore {
 public:
  GrammarStore(Vocabulary vocabulary, int vocab_size);
  ~GrammarStore();

  /// For a new sequence that comes with so many generated tokens: with what was compiled before, or else ahead of all
  /// that is only prepared. Does not wait. num_constrained: sequences that have a grammar, this one included; the more,
  /// the less its matcher may keep.
  std::shared_ptr<TokenConstraint> Constrain(const GrammarSource& source, size_t num_given, size_t num_constrained);

  /// Compiles it and keeps it, so that sequences that come later do not wait; TakeReports says when that is done.
  void Prepare(const GrammarMessage& order);
  /// What was prepared under this ticket need not be kept.
  void Forget(uint64_t ticket);
  /// Whether a sequence that comes with it will not wait.
  bool IsReady(const GrammarSource& source) { return Find(source) != nullptr; }
  /// What the coordinator must be told, since the last call.
  std::vector<GrammarReady> TakeReports();
  /// What is called on the store's thread when there is a report. Before the first Prepare.
  void set_on_report(std::function<void()> on_report) { on_report_ = std::move(on_report); }

 private:
  struct Prepared {
    GrammarDigest digest;
    std::shared_ptr<const CompiledGrammar> grammar;
  };
  void Run(const Vocabulary& vocabulary, int vocab_size);
  std::shared_ptr<const CompiledGrammar> Find(const GrammarSource& source);
  void Enqueue(std::function<void(GrammarCompiler&)> task, bool first = false);

  std::function<void()> on_report_ = [] {};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void(GrammarCompiler&)>> tasks_;  // guarded by mutex_, as are the next three
  std::vector<GrammarReady> reports_;
  std::map<uint64_t, Prepared> prepared_;  // by ticket; guarded, too
  GrammarCompiler* compiler_ = nullptr;    // of the thread, once that has made it
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
