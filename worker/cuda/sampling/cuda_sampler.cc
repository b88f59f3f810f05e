#include "worker/cuda/sampling/cuda_sampler.h"

#include <algorithm>
#include <map>
#include <set>

#include "comm/base/error.h"
#include "worker/sampling/draw.h"

namespace quire {

namespace {

constexpr int64_t kCountAlignment = 8;  // alignment in entries: 16 bytes

int64_t CountStride(const RankShard& shard) {
  return (shard.vocab.size() + kCountAlignment - 1) / kCountAlignment * kCountAlignment;
}

int64_t MaxPartBytes(int64_t rows) { return kernels::ShardPartBytes(rows, kernels::kMaxShardCandidates); }

/// True if the sequence's settings are such that only the host can sample its tokens.
bool NeedsHost(const SequenceState& s) {
  return s.constraint != nullptr || ForbidsTokens(s.sampling) || !s.sampling.logprob_tokens.empty() ||
         s.sampling.num_logprobs > kernels::kMaxTopLogprobs ||
         static_cast<int64_t>(s.sampling.logit_bias.size()) > kMaxListEntries ||
         (BansTokens(s) && static_cast<int64_t>(s.sampling.banned_until_min.size()) > kMaxListEntries);
}

/// True if the candidates of all shards may not be enough to sample the row's token. The candidates are enough for
/// greedy rows and for top-k up to the number of candidates. Rows without top-k, top-p and min-p need only the shards'
/// total weights.
bool MayNeedWholeRow(const SamplingSpec& s) {
  if (s.temperature <= 0) return false;
  if (s.top_k > 0) return s.top_k > kernels::kMaxShardCandidates;
  return s.top_p < 1 || s.min_p > 0;
}

SampledToken AsSampled(SlotId slot, const SamplingSpec& spec, const kernels::DrawnToken& drawn) {
  SampledToken token{slot, drawn.token, drawn.logprob, {}};
  if (spec.num_logprobs < 0) return token;
  for (int i = 0; i < drawn.num_top; ++i) token.top.emplace_back(drawn.top_token[i], drawn.top_logprob[i]);
  return token;
}

}  // namespace

CudaSampler::Memory::Memory(const CudaSamplerSizes& s, Pieces pieces) {
  const RankShard& shard = s.shards[static_cast<size_t>(s.rank)];
  const auto ranks = static_cast<int64_t>(s.shards.size());
  drawn = pieces.Take<kernels::DrawnToken>(s.max_rows);
  draws = pieces.Take<kernels::ShardDraw>(s.max_rows);
  if (ranks > 1) {
    part = pieces.Take(MaxPartBytes(s.max_rows));
    parts = pieces.Take(ranks * MaxPartBytes(s.max_rows));
    shard_token = pieces.Take<kernels::ShardToken>(s.max_rows);
    shard_tokens = pieces.Take<kernels::ShardToken>(ranks * s.max_rows);
  }
  workspace = pieces.Take(kernels::SamplingWorkspaceBytes(s.max_rows, shard.vocab.size()));
  last_tokens = pieces.Take<int32_t>(s.max_running);
  counts = pieces.Take<uint16_t>(s.max_running * CountStride(shard));
  counted_tokens = pieces.Take<int32_t>(s.max_model_len);
  to_count = pieces.Take<kernels::CountedSequence>(1);
  whole_row = pieces.Take<float>(ranks * s.row_stride);
  bytes = pieces.taken();
}

CudaSampler::CudaSampler(const CudaSamplerSizes& sizes, Device& device, DeviceCollective* collective)
    : sizes_(sizes),
      device_(device),
      collective_(collective),
      reserved_(device.Allocate(Memory(sizes, Pieces()).bytes, "sampling")),
      memory_(sizes, Pieces(reserved_.as())),
      counted_(static_cast<size_t>(sizes.max_running), 0) {
  const auto ranks = static_cast<int64_t>(sizes.shards.size());
  const auto deal = [&](Pieces pieces) {
    for (Results& set : results_) {
      set = {pieces.Take<kernels::DrawnToken>(sizes.max_rows), pieces.Take<kernels::ShardDraw>(sizes.max_rows)};
    }
    host_tokens_ = pieces.Take<int32_t>(sizes.max_model_len);
    host_to_count_ = pieces.Take<kernels::CountedSequence>(1);
    host_row_ = pieces.Take<float>(ranks * sizes.row_stride);
    return pieces.taken();
  };
  host_reserved_ = device.AllocateHost(deal(Pieces()), "sampling");
  deal(Pieces(host_reserved_.as()));
  // The ranks connect at their first collective call, which must not happen while a graph is captured. So each rank
  // makes a collective call now.
  if (!single())
    collective_->AllGather(memory_.part, memory_.parts, kernels::ShardPartBytes(1, 0), device.stream().handle);
}

DrawPlan CudaSampler::Prepare(const std::vector<BatchMember>& batch, const SequenceTable& table, int64_t num_rows,
                              StepArrays& arrays) {
  DrawPlan plan;
  int32_t biases = 0, bans = 0;
  for (const BatchMember& member : batch) {
    if (!member.draws) continue;
    const size_t row = plan.members.size();
    plan.members.push_back(member);
    const SequenceState& s = table.at(member.slot);
    const SamplingSpec& spec = s.sampling;
    arrays.draw_slot[row] = static_cast<int32_t>(member.slot);
    kernels::DeviceSampling& d = arrays.sampling[row];
    d = {};
    if (NeedsHost(s)) {
      plan.host_rows.push_back(row);
      counted_[member.slot] = 0;
      continue;
    }
    d = {.draws = 1,
         .temperature = spec.temperature,
         .top_p = spec.top_p,
         .min_p = spec.min_p,
         .top_k = spec.top_k,
         .repetition = spec.repetition_penalty,
         .frequency = spec.frequency_penalty,
         .presence = spec.presence_penalty,
         .seed = spec.seed,
         .position = s.tokens.size(),
         .choice = spec.choice,
         .num_logprobs = spec.num_logprobs,
         .bias_begin = biases,
         .bias_end = biases,
         .ban_begin = bans,
         .ban_end = bans,
         .count_slot = -1};
    // The kernels require that a list of biases, or of banned tokens, contains each token at most once.
    std::map<TokenId, float> bias_of;
    for (const auto& [token, bias] : spec.logit_bias) bias_of[token] += bias;
    for (const auto& [token, bias] : bias_of) {
      arrays.bias_token[biases] = token;
      arrays.bias[biases++] = bias;
    }
    if (BansTokens(s)) {
      for (const TokenId token : std::set(spec.banned_until_min.begin(), spec.banned_until_min.end()))
        arrays.banned[bans++] = token;
    }
    d.bias_end = biases;
    d.ban_end = bans;
    if (HasPenalties(spec)) {
      d.count_slot = static_cast<int32_t>(member.slot);
      if (counted_[member.slot] != s.serial) CountTokens(member.slot, s);
    }
    const bool plain = spec.temperature <= 0 && spec.num_logprobs < 0;
    if (!single() && !plain) plan.num_candidates = kernels::kMaxShardCandidates;
    if (!single() && MayNeedWholeRow(spec)) plan.surely_on_device = false;
  }
  for (auto row = static_cast<int64_t>(plan.members.size()); row < num_rows; ++row) {
    arrays.sampling[row] = {};
    arrays.draw_slot[row] = -1;
  }
  plan.num_biases = biases;
  plan.num_bans = bans;
  plan.surely_on_device = plan.surely_on_device && plan.host_rows.empty();
  return plan;
}

void CudaSampler::CountTokens(SlotId slot, const SequenceState& sequence) {
  device_.Synchronize();  // staging may still be in use for another sequence
  const auto count = static_cast<int32_t>(sequence.tokens.size());
  std::copy(sequence.tokens.begin(), sequence.tokens.end(), host_tokens_);
  *host_to_count_ = {static_cast<int32_t>(slot), 0, sequence.num_prompt_tokens, count};
  device_.CopyToDevice(memory_.counted_tokens, host_tokens_, count * static_cast<int64_t>(sizeof(int32_t)));
  device_.CopyToDevice(memory_.to_count, host_to_count_, sizeof(*host_to_count_));
  kernels::FillCounts(device_.stream(), {memory_.to_count, 1, memory_.counted_tokens, Counts()});
  counted_[slot] = sequence.serial;
}

kernels::CountTable CudaSampler::Counts() const {
  return {memory_.counts, CountStride(shard()), shard().vocab.size(), static_cast<int32_t>(shard().vocab.begin)};
}

kernels::SamplingRows CudaSampler::Rows(int64_t num_rows, const StepArrays& arrays, const float* logits) const {
  return {.rows = arrays.sampling,
          .logits = logits,
          .num_rows = num_rows,
          .row_stride = sizes_.row_stride,
          .vocab = shard().vocab.size(),
          .first_id = static_cast<int32_t>(shard().vocab.begin),
          .bias_token = arrays.bias_token,
          .bias = arrays.bias,
          .banned = arrays.banned,
          .counts = memory_.counts,
          .count_stride = CountStride(shard()),
          .edited = nullptr,
          .workspace = memory_.workspace};
}

void CudaSampler::Draw(int64_t num_rows, int num_candidates, const StepArrays& arrays, const float* logits) {
  const kernels::CudaStream stream = device_.stream();
  const kernels::SamplingRows rows = Rows(num_rows, arrays, logits);
  if (single()) {
    kernels::SampleRows(stream, rows, memory_.drawn);
  } else {
    const int ranks = static_cast<int>(sizes_.shards.size());
    kernels::SummarizeShard(stream, rows, num_candidates, memory_.part);
    collective_->AllGather(memory_.part, memory_.parts, kernels::ShardPartBytes(num_rows, num_candidates),
                           stream.handle);
    const kernels::DrawFromPartsParams all{arrays.sampling, memory_.parts, num_rows,     ranks,
                                           num_candidates,  memory_.drawn, memory_.draws};
    kernels::DrawFromParts(stream, all);
    if (num_candidates > 0) {
      kernels::DrawInShard(stream, rows, memory_.draws, sizes_.rank, memory_.shard_token);
      collective_->AllGather(memory_.shard_token, memory_.shard_tokens,
                             num_rows * static_cast<int64_t>(sizeof(kernels::ShardToken)), stream.handle);
      kernels::MergeShardDraws(stream, all, memory_.shard_tokens);
    }
  }
  kernels::KeepTokens(stream, {arrays.sampling, memory_.drawn, single() ? nullptr : memory_.draws, arrays.draw_slot,
                               num_rows, memory_.last_tokens, Counts()});
}

void CudaSampler::CopyResults(int64_t num_rows, int set) {
  device_.CopyToHost(results_[set].drawn, memory_.drawn, num_rows * static_cast<int64_t>(sizeof(kernels::DrawnToken)));
  if (single()) return;
  device_.CopyToHost(results_[set].draws, memory_.draws, num_rows * static_cast<int64_t>(sizeof(kernels::ShardDraw)));
}

std::vector<SampledToken> CudaSampler::Collect(const DrawPlan& plan, int set, const SequenceTable& table,
                                               const float* logits) {
  std::vector<SampledToken> tokens;
  const HostMask none;
  for (size_t row = 0; row < plan.members.size(); ++row) {
    const BatchMember& member = plan.members[row];
    const auto place = std::ranges::find(plan.host_rows, row);
    const bool given = place != plan.host_rows.end();
    const bool undecided = !single() && !given && results_[set].draws[row].state == kernels::DrawState::kWholeRow;
    QUIRE_CHECK(!undecided || !plan.surely_on_device, "a shard's candidates did not decide the draw of slot {}",
                member.slot);
    if (given || undecided) {
      const HostMask& mask = given ? plan.masks[static_cast<size_t>(place - plan.host_rows.begin())] : none;
      tokens.push_back(DrawOnHost(member, table, logits + static_cast<int64_t>(row) * sizes_.row_stride, mask));
      counted_[member.slot] = 0;
    } else {
      tokens.push_back(AsSampled(member.slot, table.at(member.slot).sampling, results_[set].drawn[row]));
    }
  }
  return tokens;
}

void CudaSampler::AskGrammars(const SequenceTable& table, DrawPlan& plan) const {
  RowDrawer drawer;
  for (const size_t row : plan.host_rows) {
    const SequenceState& sequence = table.at(plan.members[row].slot);
    RowMask mask;
    if (sequence.constraint != nullptr) mask = drawer.Allow(sequence, sizes_.shards.back().vocab.end);
    plan.masks.push_back({mask.outcome, {mask.allowed.begin(), mask.allowed.end()}});
  }
}

SampledToken CudaSampler::DrawOnHost(const BatchMember& member, const SequenceTable& table, const float* row,
                                     const HostMask& mask) {
  const auto row_bytes = sizes_.row_stride * static_cast<int64_t>(sizeof(float));
  const auto ranks = static_cast<int64_t>(sizes_.shards.size());
  if (single()) {
    device_.CopyToHost(host_row_, row, row_bytes);
  } else {
    collective_->AllGather(row, memory_.whole_row, row_bytes, device_.stream().handle);
    device_.CopyToHost(host_row_, memory_.whole_row, ranks * row_bytes);
  }
  device_.Synchronize();
  std::vector<float> logits;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const float* part = host_row_ + rank * sizes_.row_stride;
    logits.insert(logits.end(), part, part + sizes_.shards[static_cast<size_t>(rank)].vocab.size());
  }
  const SequenceState& sequence = table.at(member.slot);
  const Prefix known(sequence, static_cast<size_t>(member.start + member.count));  // without the pending token
  const RowMask allowed{mask.outcome, mask.allowed};
  return DrawFromRow(logits, known, member.slot, sequence.constraint != nullptr ? &allowed : nullptr);
}

}  // namespace quire
