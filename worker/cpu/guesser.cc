#include "worker/cpu/guesser.h"

#include <algorithm>

#include "worker/cpu/draft_stack.h"
#include "worker/cpu/prediction_stack.h"

namespace quire {

namespace {

constexpr int kMostSequences = 64;  // for which one call guesses

}  // namespace

void Guesser::Void(std::byte* block, const Places& places) {
  *reinterpret_cast<GuesserBlock*>(block + places.part_at) = {};
}

std::unique_ptr<Guesser> MakeGuesser(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head) {
  if (sizes.draft.files->spec().predicts) return std::make_unique<PredictionStack>(sizes, stream, head);
  return std::make_unique<DraftStack>(sizes, stream);
}

Guesser::Places GuesserPlaces(const EngineSizes& sizes, int64_t own_bytes) {
  if (sizes.draft.files == nullptr) return {own_bytes, own_bytes, own_bytes, 0};
  const ModelSpec& spec = sizes.draft.files->spec();
  const int64_t part_at = RoundUpInBlock(own_bytes);
  const int64_t kept = spec.predicts ? PredictionStack::HiddenBytes(spec) : 0;
  return {own_bytes, part_at, part_at + kGuesserHeadBytes + kept + RoundUpInBlock(GuesserShape(sizes).block_bytes()),
          MostGuessedSequences(sizes) * GuesserSpareBlocks(sizes)};
}

int64_t GuesserWeightBytes(const EngineSizes& sizes, bool has_head) {
  const ModelFiles& files = *sizes.draft.files;
  const Matrices none;
  return ModelWeights::Bytes(files, GuesserShard(sizes), sizes.compute.quantization,
                             has_head && files.spec().predicts ? &none : nullptr);
}

KvShape GuesserShape(const EngineSizes& sizes) {
  return {sizes.draft.files->spec(), GuesserShard(sizes), KvTypeOf(sizes.compute.kv_cache_dtype), sizes.block_size};
}

RankShard GuesserShard(const EngineSizes& sizes) { return PlanShards(sizes.draft.files->spec(), {1.0}).front(); }

int GuesserSpareBlocks(const EngineSizes& sizes) {
  return (sizes.block_size - 1 + sizes.draft.num_tokens - 1) / sizes.block_size + 1;
}

int MostGuessedSequences(const EngineSizes& sizes) {
  return std::min({sizes.draft.max_sequences, sizes.max_running, kMostSequences});
}

TokenId LikeliestToken(std::span<const float> logits, int64_t num_tokens) {
  const auto known = logits.first(std::min(logits.size(), static_cast<size_t>(num_tokens)));
  return static_cast<TokenId>(std::ranges::max_element(known) - known.begin());
}

}  // namespace quire
