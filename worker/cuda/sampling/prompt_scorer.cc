#include "worker/cuda/sampling/prompt_scorer.h"

#include <algorithm>

#include "worker/sampling/draw.h"

namespace quire {

std::vector<ScoringMember> ScoringMembers(const std::vector<BatchMember>& batch) {
  std::vector<ScoringMember> members;
  int64_t row = 0;
  for (const BatchMember& member : batch) {
    if (member.scores.count > 0) members.push_back({member, row});
    row += member.count;
  }
  return members;
}

PromptScorer::PromptScorer(const CudaSamplerSizes& sizes, Device& device, DeviceCollective* collective)
    : sizes_(sizes),
      device_(device),
      collective_(collective),
      rows_at_once_(std::min<int64_t>(kScoredAtOnce, sizes.max_rows)) {
  const auto ranks = static_cast<int64_t>(sizes.shards.size());
  const int64_t bytes = ranks * rows_at_once_ * sizes.row_stride * static_cast<int64_t>(sizeof(float));
  if (collective != nullptr) parts_ = device.Allocate(bytes, "logits of prompts");
  if (sizes.rank == 0) host_parts_ = device.AllocateHost(bytes, "logits of prompts");
}

void PromptScorer::Fetch(const float* logits, int64_t count) {
  const int64_t part_bytes = count * sizes_.row_stride * static_cast<int64_t>(sizeof(float));
  const auto ranks = static_cast<int64_t>(sizes_.shards.size());
  const void* all = logits;
  if (collective_ != nullptr) {
    collective_->AllGather(logits, parts_.as(), part_bytes, device_.stream().handle);
    all = parts_.as();
  }
  if (sizes_.rank == 0) device_.CopyToHost(host_parts_.as(), all, ranks * part_bytes);
  device_.Synchronize();
}

std::vector<float> PromptScorer::Row(int64_t i, int64_t count) const {
  std::vector<float> logits;
  for (size_t rank = 0; rank < sizes_.shards.size(); ++rank) {
    const float* part = host_parts_.as<float>() + (static_cast<int64_t>(rank) * count + i) * sizes_.row_stride;
    logits.insert(logits.end(), part, part + sizes_.shards[rank].vocab.size());
  }
  return logits;
}

std::vector<PromptScores> PromptScorer::Score(const std::vector<ScoringMember>& members, const SequenceTable& table,
                                              const LogitsOfRows& logits_of) {
  std::vector<PromptScores> out;
  for (const auto& [member, first_row] : members) {
    const SequenceState& sequence = table.at(member.slot);
    PromptScores scores = EmptyScores(member.slot, sequence, member.scores, sizes_.shards.back().vocab.end);
    const int64_t end = member.scores.start + member.scores.count;
    for (int64_t position = member.scores.start; position < end; position += rows_at_once_) {
      const int64_t count = std::min(rows_at_once_, end - position);
      Fetch(logits_of(first_row + position - member.start, count), count);
      for (int64_t i = 0; sizes_.rank == 0 && i < count; ++i)
        AddScore(Row(i, count), sequence, static_cast<int>(position + i), scores);
    }
    if (sizes_.rank == 0) out.push_back(std::move(scores));
  }
  return out;
}

}  // namespace quire
