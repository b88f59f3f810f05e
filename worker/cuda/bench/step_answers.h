#pragma once

#include <string>

#include "comm/base/json.h"
#include "worker/cuda/bench/step_runner.h"

namespace quire::bench {

/// Tokens and their log-probabilities of `steps` decode steps: {"tokens": [[one per sequence] per step], "logprobs":
/// ..}.
Json StepAnswers(const ModelFiles& files, StepRun run, int steps);

/// In words, where two such answers part; empty if they are the same to the last bit.
std::string FirstDifference(const Json& got, const Json& expected);

/// Two processes answer the same steps of two layers of an 8B model: one queues every kernel by itself and waits for
/// it, the other runs graphs, in which kernels begin before the one before them has ended. What overlaps wrongly,
/// differs.
struct AnswersBench {
  bool eager = false;             // the former
  std::string write_to, compare;  // files; empty: not done
  std::string models;             // as in StepBench
};
/// The exit status: 1 when the answers differ from the file's.
int BenchStepAnswers(const AnswersBench& options);

}  // namespace quire::bench
