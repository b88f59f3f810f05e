#pragma once

#include <string>

#include "comm/base/json.h"
#include "worker/cuda/bench/step_runner.h"

namespace quire::bench {

/// Returns the tokens and log-probabilities of `steps` decode steps: {"tokens": [[one per sequence] per step],
/// "logprobs": ..}.
Json StepAnswers(const ModelFiles& files, StepRun run, int steps);

/// Describes the first difference between two results of StepAnswers; empty if they have the same bits.
std::string FirstDifference(const Json& got, const Json& expected);

/// Finds races between overlapping kernels. Two processes compute the same steps of two layers of an 8B model: one
/// runs every kernel alone and waits for it; the other runs graphs, whose kernels begin before the previous one has
/// ended. A wrong overlap makes their answers differ.
struct AnswersBench {
  bool eager = false;             // run every kernel alone
  std::string write_to, compare;  // files; empty: none
  std::string models;             // the models, as in StepBench
};
/// Returns the exit status: 1 if the answers differ from the file's.
int BenchStepAnswers(const AnswersBench& options);

}  // namespace quire::bench
