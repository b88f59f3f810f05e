#include "tests/sim/oracle.h"

#include <cmath>
#include <functional>

#include "tests/sim/virtual_model.h"

namespace quire::sim {

namespace {

KvValue ContextAfter(const Ask& ask, const std::vector<TokenId>& generated) {
  KvValue value = FirstKv(ask.sampling.seed, ask.adapter);
  for (const TokenId token : ask.prompt) value = NextKv(value, token);
  for (const TokenId token : generated) value = NextKv(value, token);
  return value;
}

bool Stops(const Ask& ask, TokenId token) {
  return std::ranges::find(ask.limits.stop_token_ids, token) != ask.limits.stop_token_ids.end();
}

/// Returns a finished list of tokens as a client gets it: without stop tokens, and cut at the client's own stop
/// string.
Answer Deliver(const Ask& ask, std::vector<TokenId> tokens) {
  Answer answer;
  const bool may_stop = static_cast<int>(tokens.size()) > ask.sampling.min_tokens;
  if (may_stop && Stops(ask, tokens.back())) {
    tokens.pop_back();
    answer.reason = FinishReason::kStop;
  }
  if (ask.sink_stops_after > 0 && static_cast<int>(tokens.size()) >= ask.sink_stops_after) {
    tokens.resize(static_cast<size_t>(ask.sink_stops_after));
    answer.reason = FinishReason::kStop;
  }
  answer.tokens = std::move(tokens);
  return answer;
}

Answer Sample(const Ask& ask, int choice) {
  SamplingSpec sampling = ask.sampling;
  sampling.choice = static_cast<uint32_t>(choice);
  std::vector<TokenId> generated;
  while (static_cast<int>(generated.size()) < ask.limits.max_tokens) {
    generated.push_back(Draw(ContextAfter(ask, generated), sampling, ask.prompt.size() + generated.size()));
    const int count = static_cast<int>(generated.size());
    // min_tokens counts the tokens of the text without the stop token.
    const bool stops = Stops(ask, generated.back()) && count > ask.sampling.min_tokens;
    if (stops || (ask.sink_stops_after > 0 && count >= ask.sink_stops_after)) break;
  }
  return Deliver(ask, generated);
}

struct Hypothesis {
  std::vector<TokenId> tokens;
  float score;
};

/// Runs a textbook beam search over the whole vocabulary, written from HF's description and not from the core's code.
std::vector<Answer> SearchBeams(const Ask& ask) {
  const BeamOptions& options = *ask.beams;
  const auto width = static_cast<size_t>(options.width);
  const auto by_score = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  std::vector<Hypothesis> running = {{{}, 0.0f}}, finished;
  for (int length = 1; length <= ask.limits.max_tokens; ++length) {
    std::vector<Hypothesis> continuations;
    for (const Hypothesis& beam : running) {
      const KvValue context = ContextAfter(ask, beam.tokens);
      for (TokenId token = 0; token < kVocab; ++token) {
        continuations.push_back({beam.tokens, beam.score + Logprob(context, token)});
        continuations.back().tokens.push_back(token);
      }
    }
    std::ranges::stable_sort(continuations, by_score);
    const auto scale = [&](int at) { return std::pow(static_cast<float>(at), options.length_penalty); };
    const bool last = length == ask.limits.max_tokens;
    running.clear();
    for (size_t i = 0; i < continuations.size(); ++i) {
      const bool ends = last || Stops(ask, continuations[i].tokens.back());
      if (ends && i < width) finished.push_back({continuations[i].tokens, continuations[i].score / scale(length)});
      if (!ends && running.size() < width) running.push_back(continuations[i]);
    }
    std::ranges::stable_sort(finished, by_score);
    if (finished.size() > width) finished.resize(width);
    if (last || finished.size() < width) continue;
    const bool hopeful = options.early_stopping == EarlyStopping::kNever && options.length_penalty > 0;
    const float best = running.front().score / scale(hopeful ? ask.limits.max_tokens : length);
    if (options.early_stopping == EarlyStopping::kYes || !(best > finished.back().score)) break;
  }
  std::vector<Answer> answers;
  for (int i = 0; i < options.num_returned; ++i)
    answers.push_back(Deliver(ask, finished[static_cast<size_t>(i)].tokens));
  return answers;
}

}  // namespace

std::vector<PromptScore> RightScores(const Ask& ask) {
  std::vector<PromptScore> scores;
  if (ask.sampling.num_prompt_logprobs < 0) return scores;
  KvValue context = FirstKv(ask.sampling.seed, ask.adapter);
  for (size_t i = 0; i + 1 < ask.prompt.size(); ++i) {
    context = NextKv(context, ask.prompt[i]);
    const TokenId next = ask.prompt[i + 1];
    scores.push_back(
        {Logprob(context, next), RankOf(context, next), BestTokens(context, ask.sampling.num_prompt_logprobs)});
  }
  return scores;
}

std::vector<float> RightPooled(const Ask& ask) {
  std::vector<float> activations;
  KvValue context = FirstKv(ask.sampling.seed, ask.adapter);
  for (const TokenId token : ask.prompt) activations.push_back(Activation(context = NextKv(context, token)));
  double sum = 0;
  for (const float activation : activations) sum += activation;
  switch (ask.sampling.pooling) {
    case Pooling::kNone:
      break;
    case Pooling::kLast:
      return {activations.back()};
    case Pooling::kMean:
      return {static_cast<float>(sum / static_cast<double>(activations.size()))};
    case Pooling::kCls:
      return {activations.front()};
    case Pooling::kAll:
      return activations;
    case Pooling::kSparse:
    case Pooling::kColbert:
      break;  // these settings need layers, which simulated models do not have
  }
  return {};
}

std::vector<Answer> RightAnswers(const Ask& ask) {
  if (ask.beams) return SearchBeams(ask);
  std::vector<Answer> answers;
  for (int choice = 0; choice < ask.n; ++choice) answers.push_back(Sample(ask, choice));
  return answers;
}

}  // namespace quire::sim
