#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "coordinator/core/engine/engine.h"
#include "tests/support/adapted_model.h"
#include "tests/support/collecting_sink.h"
#include "tests/support/step_ahead.h"
#include "tests/support/thread_group.h"

namespace quire::test {

struct AdaptedSetup {
  std::vector<double> shares = {1};
  int threads = 1;
  int num_blocks = 1000;
  bool one_at_a_time = false;
  int max_step_tokens = 64;
  std::vector<std::string> later = {};  // paths of adapters loaded while serving, from kMostListedAdapters + 1 on
  std::vector<int32_t> stages = {};
  bool expert_parallel = false;
};

using ChoiceOfCase = std::vector<CollectingSink::Choice>;

/// Serves all cases and returns their answers in order.
inline ChoiceOfCase ServeAdapted(const ModelFiles& files, const std::vector<AdaptedCase>& cases,
                                 const AdaptedSetup& setup, int64_t* preemptions = nullptr) {
  const ComputeSettings compute = {.expert_parallel = setup.expert_parallel};
  ThreadGroup group(files, {16, setup.max_step_tokens, 32, 2200, setup.threads, setup.shares, compute, setup.stages},
                    setup.num_blocks);
  for (size_t i = 0; i < setup.later.size(); ++i)
    group.SetAdapter(kMostListedAdapters + 1 + static_cast<int>(i), files, AdapterFiles::Open(setup.later[i], files));
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = 32;
  options.scheduler.lookahead_tokens = setup.num_blocks < 200 ? 0 : 16;
  options.scheduler.num_stages = std::max<int>(1, static_cast<int>(setup.stages.size()));
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.state_blocks = group.state_blocks();
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = 2200;
  Engine engine(options);
  for (size_t i = 0; i < setup.later.size(); ++i) engine.AdapterCame(kMostListedAdapters + 1 + static_cast<int>(i));
  std::vector<CollectingSink> sinks(cases.size());
  for (size_t next = 0; next < cases.size() || !engine.idle();) {
    while (next < cases.size() && (!setup.one_at_a_time || engine.idle())) {
      auto request = MakeRequest(next + 1, cases[next].prompt, static_cast<int>(cases[next].tokens.size()), sinks[next],
                                 1, {.temperature = 0, .num_logprobs = 2});
      request->adapter = cases[next++].adapter;
      const auto refused = engine.Submit(std::move(request));
      QUIRE_CHECK(!refused, "{}", *refused);
    }
    StepAhead(engine, group);
  }
  if (preemptions != nullptr) *preemptions = engine.scheduler().num_preemptions();
  ChoiceOfCase answers;
  for (CollectingSink& sink : sinks) answers.push_back(sink.choices[0]);
  return answers;
}

inline void ExpectAdapted(const std::vector<AdaptedCase>& cases, const ChoiceOfCase& answers) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string what = fmt::format("case {}, adapter {}", i, cases[i].adapter);
    EXPECT_EQ(answers[i].tokens, cases[i].tokens) << what;
    double worst = 0;
    for (size_t t = 0; t < answers[i].logprobs.size(); ++t)
      worst = std::max(worst, std::abs(double{answers[i].logprobs[t]} - cases[i].logprobs[t]));
    EXPECT_LE(worst, 1e-3) << what;
  }
}

inline void ExpectSameBits(const ChoiceOfCase& got, const ChoiceOfCase& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << i;
    EXPECT_EQ(got[i].logprobs, want[i].logprobs) << i;
  }
}

}  // namespace quire::test
