#include "worker/grammar_store.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "comm/error.h"
#include "comm/thread_time.h"

namespace quire {

namespace {

using Compiled = std::shared_ptr<const CompiledGrammar>;

// Where a text can be read in many ways, each token costs more than the one before, without end. What a sequence may
// take in all: so much, and so much more for every token. Grammars with one reading take a tenth of a millisecond.
constexpr std::chrono::nanoseconds kAtOnce = std::chrono::milliseconds(200);
constexpr std::chrono::nanoseconds kForEachToken = std::chrono::milliseconds(2);

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_future<Compiled> grammar) : grammar_(std::move(grammar)) {}

  void Mask(std::span<const TokenId> generated, std::span<float> logits) override {
    if (!matcher_) matcher_.emplace(grammar_.get());  // throws what compiling threw
    const std::chrono::nanoseconds begin = ThreadTime();
    const size_t before = matcher_->num_followed();
    if (!matcher_->Follow(generated)) Fail("a sequence has tokens that its grammar does not allow");
    matcher_->Mask(logits);
    used_ += ThreadTime() - begin;
    const size_t followed = generated.size() >= before ? generated.size() - before : generated.size();
    allowed_ += kForEachToken * static_cast<int64_t>(followed + 1);
  }

  bool overworked() const override { return used_ > allowed_; }

 private:
  std::chrono::nanoseconds used_{0}, allowed_ = kAtOnce;
  std::shared_future<Compiled> grammar_;
  std::optional<GrammarMatcher> matcher_;  // a memory of where the last call led, no more
};

}  // namespace

GrammarStore::GrammarStore(Vocabulary vocabulary, int vocab_size)
    : thread_([this, vocabulary = std::move(vocabulary), vocab_size] { Run(vocabulary, vocab_size); }) {}

GrammarStore::~GrammarStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GrammarStore::Enqueue(std::function<void(GrammarCompiler&)> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

std::shared_ptr<TokenConstraint> GrammarStore::Constrain(const GrammarSource& source) {
  const auto promise = std::make_shared<std::promise<Compiled>>();
  Enqueue([promise, source](GrammarCompiler& compiler) {
    try {
      promise->set_value(compiler.Compile(source));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return std::make_shared<GrammarConstraint>(promise->get_future().share());
}

void GrammarStore::Prepare(const GrammarMessage& order) {
  Enqueue([this, order](GrammarCompiler& compiler) {
    GrammarReady report{order.ticket, ""};
    try {
      compiler.Compile(order.source);
    } catch (const std::exception& error) {
      report.problem = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      reports_.push_back(std::move(report));
    }
    on_report();
  });
}

std::vector<GrammarReady> GrammarStore::TakeReports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void GrammarStore::Run(const Vocabulary& vocabulary, int vocab_size) {
  constexpr int kNiceness = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness);  // of this thread alone, on Linux
  GrammarCompiler compiler(vocabulary, vocab_size);
  std::unique_lock lock(mutex_);
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
