// Compares what sampling costs: greedy and sampled rows, with and without a grammar, over the ranks of one host. ctest
// does not run it. Results: docs/benchmarks/2026-11-25-constrained-draws.md.
//   build/tests/draws_bench MODEL [RANKS [ROWS [STEPS [one of: greedy, greedy-json, drawn, drawn-json]]]]
// Logits are random numbers over the model's vocabulary, so texts are random within the grammar.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/grammar/grammar_compiler.h"
#include "comm/model/model_files.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "coordinator/text/tokenizer/vocabulary_of.h"
#include "tests/support/thread_collectives.h"
#include "worker/cpu/sampler.h"
#include "worker/serve/grammar_store.h"

namespace quire {
namespace {

constexpr const char* kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
  "kind": {"enum": ["person", "place", "thing"]}, "notes": {"type": "array", "items": {"type": "string"}},
  "more": {"type": "object", "properties": {"city": {"type": "string"}, "true": {"type": "boolean"}},
  "required": ["city", "true"], "additionalProperties": false}},
  "required": ["name", "age", "kind", "notes", "more"], "additionalProperties": false})";
constexpr int kRowSets = 4;          // sets of rows, for different steps
constexpr int kLongest = 1 << 20;    // tokens of a sequence
constexpr int kLongestAnswer = 400;  // longest answer in tokens; then a new sequence takes its row

struct Case {
  const char* name;
  float temperature;
  bool constrained;
};
constexpr Case kCases[] = {
    {"greedy", 0, false}, {"greedy-json", 0, true}, {"drawn", 1, false}, {"drawn-json", 1, true}};

double ThreadSeconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// One rank, which samples for its sequences step by step. When an answer ends, the rank begins a new sequence.
class Rank {
 public:
  Rank(const Vocabulary& vocabulary, std::vector<Range> parts, Collective& collective, const Case& which, int rows)
      : case_(which),
        stop_(vocabulary.stop_tokens.front()),
        part_(parts[static_cast<size_t>(collective.rank())]),
        store_(vocabulary, static_cast<int>(parts.back().end)),
        sampler_(parts, collective, stream_),
        table_(rows, kLongest, kLongest) {
    table_.constrain = [this](const GrammarSource& source, size_t given, size_t constrained) {
      return store_.Constrain(source, given, constrained);
    };
    for (SlotId slot = 0; slot < static_cast<SlotId>(rows); ++slot) Add(slot);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 3);
    for (auto& logits : logits_) {
      std::vector<float> whole(static_cast<size_t>(rows) * static_cast<size_t>(parts.back().end));
      for (float& logit : whole) logit = normal(random);
      for (int row = 0; row < rows; ++row) {
        const auto begin = whole.begin() + static_cast<ptrdiff_t>(row) * parts.back().end;
        logits.insert(logits.end(), begin + part_.begin, begin + part_.end);
      }
    }
  }

  void Step() {
    const std::vector<BatchMember> batch = table_.Apply(plan_);
    plan_.Clear();
    step_logits_ = logits_[static_cast<size_t>(steps_++ % kRowSets)];
    const double begin = ThreadSeconds();
    const auto width = static_cast<size_t>(part_.size());
    const auto logits_of = [&](int64_t row, int64_t count) {
      return std::span(step_logits_).subspan(static_cast<size_t>(row) * width, static_cast<size_t>(count) * width);
    };
    const auto drawn = sampler_.Draw(logits_of, batch, table_);
    seconds_ += ThreadSeconds() - begin;
    table_.Resolve(table_.Advance(batch), drawn);
    for (const SampledToken& token : drawn) {
      QUIRE_CHECK(!token.dead_end() && !token.overworked() && !token.broken(), "slot {} cannot go on", token.slot);
      sum_ = sum_ * 31 + static_cast<uint64_t>(token.token);
      if (token.token == stop_ || table_.at(token.slot).tokens.size() > kLongestAnswer) {
        plan_.released.push_back(token.slot);
        Add(token.slot);
      } else {
        plan_.decodes.push_back(token.slot);
        plan_.position_sum += static_cast<uint64_t>(table_.at(token.slot).num_computed);
      }
    }
  }
  uint64_t sum() const { return sum_; }
  double TakeSeconds() { return std::exchange(seconds_, 0); }  // seconds this thread sampled since the last call

 private:
  void Add(SlotId slot) {
    AddedSequence added{slot, 1, 0, {0}, {1}, {}};
    added.sampling.temperature = case_.temperature;
    added.sampling.seed = ++seed_;
    if (case_.constrained) added.sampling.grammar = {GrammarSource::kJsonSchema, kSchema};
    plan_.added.push_back(added);
    plan_.chunks.push_back({slot, 0, 1});
  }

  Case case_;
  TokenId stop_;
  Range part_;
  GrammarStore store_;
  const kernels::CpuStream stream_{1};
  Sampler sampler_;
  SequenceTable table_;
  StepPlan plan_;
  std::vector<float> logits_[kRowSets];  // [rows, this rank's vocabulary]
  std::vector<float> step_logits_;
  double seconds_ = 0;
  uint64_t seed_ = 0, sum_ = 0;
  int steps_ = 0;
};

void Measure(const Vocabulary& vocabulary, int64_t vocab_size, const Case& which, int num_ranks, int rows, int steps) {
  std::vector<Range> parts;
  for (int64_t rank = 0; rank < num_ranks; ++rank)
    parts.push_back({vocab_size * rank / num_ranks, vocab_size * (rank + 1) / num_ranks});
  const auto collectives = MakeThreadCollectives(num_ranks);
  std::vector<double> micros(static_cast<size_t>(num_ranks));
  std::vector<uint64_t> sums(static_cast<size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < collectives.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Rank one(vocabulary, parts, *collectives[rank], which, rows);
      for (int step = 0; step < 5; ++step) one.Step();
      one.TakeSeconds();
      for (int step = 0; step < steps; ++step) one.Step();
      micros[rank] = one.TakeSeconds() * 1e6 / steps;
      sums[rank] = one.sum();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const uint64_t sum : sums) QUIRE_CHECK(sum == sums[0], "ranks drew different tokens");
  fmt::print("{:12} {} ranks, {} rows: {:8.0f} us of rank 0 a step (tokens {:016x})\n", which.name, num_ranks, rows,
             micros[0], sums[0]);
}

int Run(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const ModelFiles model = ModelFiles::Open(argv[1]);
  const Tokenizer tokenizer(TokenizerDataOf(model));
  const Vocabulary vocabulary = VocabularyOf(tokenizer, model.spec().eos_token_ids, {});
  for (const Case& which : kCases) {
    if (argc <= 5 || which.name == std::string(argv[5]))
      Measure(vocabulary, model.spec().vocab_size, which, number(2, 2), number(3, 32), number(4, 200));
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "draws_bench MODEL [RANKS [ROWS [STEPS [CASE]]]]\n");
    return 2;
  }
  return quire::Run(argc, argv);
}
