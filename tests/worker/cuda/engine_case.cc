#include "worker/cuda/engine_case.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random.h"
#include "worker/cuda/emulated_collective.h"

namespace quire::test {

namespace {

/// Makes a vocabulary of one letter for each token. Token 0 has no text and ends an answer.
Vocabulary LettersOf(int64_t vocab_size) {
  Vocabulary vocabulary{{""}, {0}};
  for (int64_t token = 1; token < vocab_size; ++token)
    vocabulary.bytes.emplace_back(1, static_cast<char>('a' + token % 26));
  return vocabulary;
}

}  // namespace

std::unique_ptr<RankEngine> CudaMaker::operator()(const ModelFiles& files, const EngineSizes& sizes, Collective& host) {
  NormingCollective* collective = nullptr;
  if (host.size() > 1) {
    const std::lock_guard lock(mutex_);
    collectives_.push_back(std::make_unique<EmulatedCollective>(host));
    collective = collectives_.back().get();
  }
  return MakeCudaEngine(files, sizes, options_, host.rank(), collective);
}

Answers Serve(const ModelFiles& files, const std::vector<Ask>& asks, const Setup& setup, const EngineMaker& maker) {
  ThreadGroup group(files,
                    {setup.block_size,
                     setup.max_step_tokens,
                     setup.max_running,
                     setup.max_model_len,
                     1,
                     std::vector<double>(static_cast<size_t>(setup.ranks), 1.0),
                     {.quantization = setup.quantization, .expert_parallel = setup.expert_parallel}},
                    setup.num_blocks, setup.num_host_blocks > 0 ? setup.num_host_blocks + 1 : 0, maker);
  group.SetVocabulary(LettersOf(files.spec().vocab_size));
  EngineOptions options;
  options.scheduler.max_step_tokens = setup.max_step_tokens;
  options.scheduler.max_running = setup.max_running;
  options.scheduler.preemption = setup.preemption;
  options.scheduler.lookahead_tokens = 0;
  options.blocks.num_blocks = setup.num_blocks;
  options.blocks.num_host_blocks = setup.num_host_blocks;
  options.blocks.block_size = setup.block_size;
  options.blocks.state_blocks = group.state_blocks();
  options.blocks.state_spacing = setup.state_spacing;
  options.blocks.sliding_window = static_cast<int>(files.spec().window());
  options.max_model_len = setup.max_model_len;
  Engine engine(options);
  const auto commit = [&] {
    const auto drawn = group.Await();
    engine.CommitStep(drawn, {setup.step_micros, 0}, group.scores());
  };
  Answers answers{std::vector<CollectingSink>(asks.size())};
  for (size_t next = 0; next < asks.size() || !engine.idle();) {
    if (next < asks.size()) {
      const Ask& ask = asks[next];
      auto request = MakeRequest(next + 1, ask.prompt, ask.max_tokens, answers.sinks[next],
                                 ask.beams > 0 ? ask.beams : ask.n, ask.sampling);
      if (ask.beams > 0) {
        request->beams =
            std::make_unique<BeamSearch>(BeamOptions{.width = ask.beams}, std::vector<TokenId>{0}, ask.max_tokens);
        request->sampling.num_logprobs = request->beams->num_candidates();
      }
      EXPECT_EQ(engine.Submit(std::move(request)), std::nullopt);
      ++next;
    }
    while (const StepPlan* plan = engine.NextPlan(0)) group.Send(*plan);
    if (engine.num_outstanding() > 0) commit();
  }
  while (engine.num_outstanding() > 0) commit();
  answers.cached_tokens = engine.stats().cached_tokens;
  answers.from_host = engine.blocks().host_cache().num_found();
  answers.overlapped = group.num_overlapped();
  answers.preemptions = engine.scheduler().num_preemptions();
  return answers;
}

std::vector<Ask> SomeAsks(const ModelFiles& files, uint64_t seed, const std::vector<int>& lengths) {
  Random random(seed);
  std::vector<Ask> asks;
  for (const int length : lengths) {
    Ask ask;
    for (int i = 0; i < length; ++i) ask.prompt.push_back(static_cast<TokenId>(random.Below(files.spec().vocab_size)));
    asks.push_back(std::move(ask));
  }
  return asks;
}

void ExpectAlike(const Answers& got, const Answers& want, double tolerance, double part) {
  size_t compared = 0, tokens = 0;
  for (size_t i = 0; i < want.sinks.size(); ++i) {
    ASSERT_EQ(got.sinks[i].error, "");
    for (const auto& [index, choice] : want.sinks[i].choices) {
      const auto& mine = got.sinks[i].choices.at(index);
      ASSERT_EQ(mine.tokens.size(), choice.tokens.size());
      tokens += choice.tokens.size();
      for (size_t t = 0; t < choice.tokens.size(); ++t, ++compared) {
        ASSERT_NEAR(mine.logprobs[t], choice.logprobs[t], tolerance) << "request " << i << ", token " << t;
        if (mine.tokens[t] != choice.tokens[t]) break;
      }
    }
  }
  EXPECT_GE(static_cast<double>(compared), part * static_cast<double>(tokens));
}

void ExpectAlikePrompts(const Answers& got, const Answers& want, double tolerance) {
  size_t scored = 0;
  for (size_t i = 0; i < want.sinks.size(); ++i) {
    const CollectingSink &mine = got.sinks[i], &right = want.sinks[i];
    ASSERT_EQ(mine.prompt_logprobs.size(), right.prompt_logprobs.size());
    ASSERT_EQ(mine.prompt_top.size(), right.prompt_top.size());
    scored += right.prompt_logprobs.size();
    const auto expect_near = [&](float number, float wanted) {
      ASSERT_NEAR(number, wanted, tolerance * (2 + std::abs(wanted) / 5)) << "request " << i;
    };
    for (size_t t = 0; t < right.prompt_logprobs.size(); ++t)
      expect_near(mine.prompt_logprobs[t], right.prompt_logprobs[t]);
    for (size_t t = 0; t < right.prompt_top.size(); ++t)
      expect_near(mine.prompt_top[t].second, right.prompt_top[t].second);
  }
  EXPECT_GT(scored, 150u);
}

void ExpectAlikePooled(const Answers& got, const Answers& want, double tolerance) {
  size_t pooled = 0;
  for (size_t i = 0; i < want.sinks.size(); ++i) {
    const std::vector<float>&mine = got.sinks[i].pooled, &right = want.sinks[i].pooled;
    ASSERT_EQ(mine.size(), right.size()) << "request " << i;
    for (size_t d = 0; d < right.size(); ++d)
      ASSERT_NEAR(mine[d], right[d], tolerance * (2 + std::abs(right[d]))) << "request " << i << ", dimension " << d;
    pooled += !right.empty();
  }
  EXPECT_EQ(pooled, 3u);
}

void ExpectEqualTokens(const Answers& got, const Answers& want) {
  for (size_t i = 0; i < want.sinks.size(); ++i) {
    ASSERT_EQ(got.sinks[i].error, "");
    for (const auto& [index, choice] : want.sinks[i].choices) {
      const auto& mine = got.sinks[i].choices.at(index);
      EXPECT_EQ(mine.tokens, choice.tokens) << "request " << i << ", choice " << index;
      for (size_t t = 0; t < choice.logprobs.size(); ++t) EXPECT_NEAR(mine.logprobs[t], choice.logprobs[t], 1e-3);
    }
  }
}

}  // namespace quire::test
