#include "tests/sim/proposer.h"

#include "tests/sim/virtual_model.h"

namespace quire::sim {

DraftSource Proposer::Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) {
  SamplingSpec sampling = request.sampling;
  sampling.choice = static_cast<uint32_t>(sequence.choice);
  KvValue context = FirstKv(sampling.seed, request.adapter);
  for (const TokenId token : sequence.tokens) context = NextKv(context, token);
  uint64_t random = Mix(seed_, Mix(request.id, sequence.tokens.size()));
  const auto below = [&](int limit) { return static_cast<int>((random = Mix(random)) % static_cast<uint64_t>(limit)); };
  guess.clear();
  const int count = below(most + 1);
  while (static_cast<int>(guess.size()) < count) {
    TokenId token = Draw(context, sampling, sequence.tokens.size() + guess.size());
    if (sampling.num_logprobs > 0) token = BestTokens(context, 1).front().first;
    if (below(100) >= percent_right_) token = static_cast<TokenId>((token + 1 + below(kVocab - 1)) % kVocab);
    context = NextKv(context, token);
    guess.push_back(token);
  }
  return static_cast<DraftSource>((request.id + sequence.tokens.size()) % kDraftSources);
}

}  // namespace quire::sim
