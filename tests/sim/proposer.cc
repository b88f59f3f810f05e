#include "tests/sim/proposer.h"

#include "tests/sim/virtual_model.h"

namespace quire::sim {

DraftSource Proposer::Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) {
  SamplingSpec sampling = request.sampling;
  sampling.choice = static_cast<uint32_t>(sequence.choice);
  const uint64_t key = Mix(seed_, Mix(request.id, sequence.tokens.size()));
  const auto count = static_cast<int>(Mix(key) % static_cast<uint64_t>(most + 1));
  guess = Guess(sampling, request.adapter, sequence.tokens, count, Mix(key));
  return static_cast<DraftSource>((request.id + sequence.tokens.size()) % static_cast<size_t>(DraftSource::kModel));
}

std::vector<TokenId> Proposer::Guess(const SamplingSpec& sampling, int adapter, const std::vector<TokenId>& tokens,
                                     int count, uint64_t key) const {
  KvValue context = FirstKv(sampling.seed, adapter);
  for (const TokenId token : tokens) context = NextKv(context, token);
  const auto below = [&](int limit) { return static_cast<int>((key = Mix(key)) % static_cast<uint64_t>(limit)); };
  std::vector<TokenId> guess;
  while (static_cast<int>(guess.size()) < count) {
    TokenId token = Draw(context, sampling, tokens.size() + guess.size());
    if (sampling.num_logprobs > 0) token = BestTokens(context, 1).front().first;
    if (below(100) >= percent_right_) token = static_cast<TokenId>((token + 1 + below(kVocab - 1)) % kVocab);
    context = NextKv(context, token);
    guess.push_back(token);
  }
  return guess;
}

}  // namespace quire::sim
