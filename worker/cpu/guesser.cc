#include "worker/cpu/guesser.h"

#include <algorithm>
#include <cstring>

#include "worker/cpu/draft_stack.h"
#include "worker/cpu/prediction_stack.h"

namespace quire {

Guesser::Guesser(const EngineSizes& sizes) : sizes_(sizes) {}

void Guesser::UsePool(std::byte* pool, const Places& places, int num_blocks) {
  pool_ = pool;
  places_ = places;
  num_blocks_ = num_blocks;
  cache_ = std::make_unique<KvCache>(GuesserShape(sizes_), pool + places.keys_at, places.block_bytes);
}

void Guesser::Overwrite(const std::vector<BatchMember>& batch, const SequenceTable& table) {
  const int size = block_size();
  for (const BatchMember& member : batch) {
    const std::vector<BlockId>& blocks = table.at(member.slot).blocks;
    for (int index = member.start / size; index * size < member.start + member.count; ++index) {
      GuesserBlock& head = HeadOf(blocks[static_cast<size_t>(index)]);
      const int stays = std::max(0, member.start - index * size);
      head.num_read = std::min(head.num_read, stays);
      if (head.kept > stays) head.kept = 0;
    }
  }
}

void Guesser::CopyPart(int from, int to) {
  std::memcpy(PartOf(to), PartOf(from), static_cast<size_t>(places_.block_bytes - places_.part_at));
}

void Guesser::AppendSpareBlocks(size_t number, std::vector<int>& blocks) const {
  const int spare = GuesserSpareBlocks(sizes_), first = num_blocks_ + static_cast<int>(number) * spare;
  for (int i = 0; i < spare; ++i) blocks.push_back(first + i);
}

void Guesser::Void(std::byte* block, const Places& places) {
  *reinterpret_cast<GuesserBlock*>(block + places.part_at) = {};
}

std::unique_ptr<Guesser> MakeGuesser(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head) {
  if (sizes.draft.files->spec().predicts) return std::make_unique<PredictionStack>(sizes, stream, head);
  return std::make_unique<DraftStack>(sizes, stream);
}

Guesser::Places GuesserPlaces(const EngineSizes& sizes, int64_t own_bytes) {
  if (sizes.draft.files == nullptr) return {own_bytes, own_bytes, own_bytes, own_bytes, 0};
  const ModelSpec& spec = sizes.draft.files->spec();
  const int64_t part_at = RoundUpInBlock(own_bytes);
  const int64_t kept = spec.predicts ? PredictionStack::HiddenBytes(spec) : 0;
  const int64_t keys_at = part_at + kGuesserHeadBytes + kept;
  return {own_bytes, part_at, keys_at, keys_at + RoundUpInBlock(GuesserShape(sizes).block_bytes()),
          MostGuessedSequences(sizes) * GuesserSpareBlocks(sizes)};
}

int64_t GuesserWeightBytes(const EngineSizes& sizes, bool has_head) {
  const ModelFiles& files = *sizes.draft.files;
  const Matrices none;
  return ModelWeights::Bytes(files, GuesserShard(sizes), sizes.compute.quantization,
                             has_head && files.spec().predicts ? &none : nullptr);
}

TokenId LikeliestToken(std::span<const float> logits, int64_t num_tokens) {
  const auto known = logits.first(std::min(logits.size(), static_cast<size_t>(num_tokens)));
  return static_cast<TokenId>(std::ranges::max_element(known) - known.begin());
}

}  // namespace quire
