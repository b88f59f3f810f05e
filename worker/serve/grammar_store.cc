#include "worker/serve/grammar_store.h"

#include <algorithm>
#include <future>
#include <new>
#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/give_way.h"

namespace quire {

namespace {

using Compiled = std::shared_ptr<const CompiledGrammar>;

constexpr int64_t kFullMatchers = 30;  // matchers that may have the full bounds at the same time, memory permitting
constexpr int64_t kAnswers = 256;      // answers for which GrammarMemory::answers must suffice

/// Returns the states that kAnswers matchers keep together when the k-th one keeps pool / k, or GrammarMatcher's bound
/// if that is less.
int64_t StatesOfAnswers(int64_t pool) {
  int64_t states = 0;
  for (int64_t k = 1; k <= kAnswers; ++k) states += std::min(GrammarMatcher::Bounds().states, pool / k);
  return states;
}

/// Returns the largest pool of states with which kAnswers matchers take at most `bytes`, and at most kFullMatchers full
/// ones.
int64_t PoolWithin(int64_t bytes) {
  int64_t low = 0, high = kFullMatchers * GrammarMatcher::Bounds().states;
  while (low < high) {
    const int64_t pool = (low + high + 1) / 2;
    StatesOfAnswers(pool)* GrammarMatcher::kBytesPerState <= bytes ? low = pool : high = pool - 1;
  }
  return low;
}

/// Returns the bounds of a new sequence's matcher. `num_constrained` sequences, this one included, have a grammar. The
/// first 30 may do the full work of one matcher (2 ms), further ones an even part of what 30 may do: at most 190 ms in
/// a step in which 256 sequences begin. The states of the pool are divided in the same way. The result depends only on
/// the plans and on the memory that all ranks were told alike, so all ranks agree.
GrammarMatcher::Bounds BoundsOf(size_t num_constrained, int64_t pool_states) {
  const GrammarMatcher::Bounds most;
  const auto part = [&](int64_t one, int64_t all) {
    return std::min(one, all / static_cast<int64_t>(num_constrained));
  };
  return {.states = part(most.states, pool_states), .units = part(most.units, kFullMatchers * most.units)};
}

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_future<Compiled> grammar, size_t num_given, const GrammarMatcher::Bounds& bounds)
      : grammar_(std::move(grammar)), num_given_(num_given), bounds_(bounds) {}

  Outcome Allow(std::span<const TokenId> generated, size_t num_guessed, std::span<uint32_t> allowed) override {
    if (!matcher_) matcher_.emplace(grammar_.get(), bounds_);  // rethrows a compile error
    if (certain_ && (matcher_->overworked() || !matcher_->LeadsTo(generated))) matcher_ = std::move(certain_);
    const auto certain = generated.first(generated.size() - num_guessed);
    const bool guesses = num_guessed > 0 && matcher_->num_followed() <= certain.size();
    if (num_guessed == 0 || guesses) certain_.reset();
    if (guesses && matcher_->Follow(certain)) certain_.emplace(matcher_->Fork());
    const bool goes_on = matcher_->Follow(generated) && matcher_->Allow(allowed);
    if (goes_on) return Outcome::kMasked;
    if (matcher_->overworked()) return Outcome::kOverworked;
    // Steps planned before the dead end was known may still bring tokens that were sampled after the dead end. Tokens
    // that came with the sequence were delivered already, so a dead end among those tokens is an error.
    if (matcher_->num_followed() < num_given_) Fail("a sequence comes with tokens that its grammar does not allow");
    return Outcome::kDeadEnd;
  }

 private:
  std::shared_future<Compiled> grammar_;
  size_t num_given_;  // number of generated tokens that the sequence had when it was added
  GrammarMatcher::Bounds bounds_;
  std::optional<GrammarMatcher> matcher_;  // a cache of the state after the last call's tokens
  std::optional<GrammarMatcher> certain_;  // the state before the drafts that matcher_ has followed, if any
};

}  // namespace

GrammarStore::GrammarStore(Vocabulary vocabulary, int vocab_size, const GrammarMemory& memory)
    : pool_states_(PoolWithin(memory.answers)),
      thread_([this, vocabulary = std::move(vocabulary), vocab_size, cache_bytes = memory.cached] {
        Run(vocabulary, vocab_size, cache_bytes);
      }) {}

GrammarStore::~GrammarStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GrammarStore::Enqueue(std::function<void(GrammarCompiler&)> task, bool first) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.insert(first ? tasks_.begin() : tasks_.end(), std::move(task));
  }
  changed_.notify_one();
}

Compiled GrammarStore::Find(const GrammarSource& source) {
  const GrammarDigest digest = DigestOf(source);
  GrammarCompiler* compiler = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const auto& entry) { return entry.second.digest == digest; };
    const auto found = std::ranges::find_if(prepared_, is_it);
    if (found != prepared_.end()) return found->second.grammar;
    compiler = compiler_;
  }
  return compiler != nullptr ? compiler->Find(digest) : nullptr;
}

std::shared_ptr<TokenConstraint> GrammarStore::Constrain(const GrammarSource& source, size_t num_given,
                                                         size_t num_constrained) {
  const auto promise = std::make_shared<std::promise<Compiled>>();
  if (const Compiled ready = Find(source)) {
    promise->set_value(ready);
  } else {
    const auto compile = [promise, source](GrammarCompiler& with) {
      try {
        promise->set_value(with.Compile(source));
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    };
    Enqueue(compile, true);  // a step waits for this grammar
  }
  return std::make_shared<GrammarConstraint>(promise->get_future().share(), num_given,
                                             BoundsOf(num_constrained, pool_states_));
}

void GrammarStore::Prepare(const GrammarMessage& order) {
  Enqueue([this, order](GrammarCompiler& compiler) {
    GrammarReady report{order.ticket, ""};
    Compiled grammar;
    try {
      grammar = compiler.Compile(order.source);
      report.bytes = BytesOf(*grammar);
    } catch (const std::bad_alloc&) {
      report.problem = "it takes more memory than this worker has";
    } catch (const std::exception& error) {
      report.problem = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      if (grammar != nullptr) prepared_[order.ticket] = {DigestOf(order.source), grammar};
      reports_.push_back(std::move(report));
    }
    on_report_();
  });
}

void GrammarStore::Forget(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  prepared_.erase(ticket);
}

std::vector<GrammarReady> GrammarStore::TakeReports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void GrammarStore::Run(const Vocabulary& vocabulary, int vocab_size, int64_t cache_bytes) {
  WorkBesideSteps();
  GrammarCompiler compiler(vocabulary, vocab_size, cache_bytes);
  std::unique_lock lock(mutex_);
  compiler_ = &compiler;
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task(compiler);
    lock.lock();
  }
}

}  // namespace quire
