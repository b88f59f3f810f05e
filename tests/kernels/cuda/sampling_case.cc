#include "kernels/cuda/sampling_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "simt/device_buffer.h"

namespace quire::kernels {

namespace {

using simt::DeviceBuffer;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUnwritten = -12345;

/// Holds one shard's part of a batch in device memory.
struct Shard {
  Shard(const std::vector<SamplingRow>& batch, int64_t first, int64_t vocab)
      : rows(static_cast<int64_t>(batch.size())),
        logits(static_cast<int64_t>(batch.size()) * (vocab + 3), kNaN),
        bias_token(TotalBias(batch) + 1, 1 << 30),
        bias(TotalBias(batch) + 1, kNaN),
        banned(TotalBans(batch) + 1, 1 << 30),
        counts(static_cast<int64_t>(batch.size()) * (vocab + 5), 0),
        workspace(SamplingWorkspaceBytes(static_cast<int64_t>(batch.size()), vocab), std::byte{0xa5}) {
    op = {rows.data(),       logits.data(), rows.size(),   vocab + 3,     vocab,     static_cast<int32_t>(first),
          bias_token.data(), bias.data(),   banned.data(), counts.data(), vocab + 5, nullptr,
          workspace.data()};
    int32_t num_bias = 0, num_bans = 0;
    for (size_t r = 0; r < batch.size(); ++r) Fill(batch[r], static_cast<int64_t>(r), num_bias, num_bans);
  }

  static int64_t TotalBias(const std::vector<SamplingRow>& batch) {
    return std::accumulate(batch.begin(), batch.end(), int64_t{0},
                           [](int64_t n, const SamplingRow& row) { return n + std::ssize(row.bias); });
  }
  static int64_t TotalBans(const std::vector<SamplingRow>& batch) {
    return std::accumulate(batch.begin(), batch.end(), int64_t{0},
                           [](int64_t n, const SamplingRow& row) { return n + std::ssize(row.banned); });
  }
  void Fill(const SamplingRow& row, int64_t r, int32_t& num_bias, int32_t& num_bans) {
    DeviceSampling s;
    std::memset(&s, 0xcc, sizeof(s));
    s.draws = row.draws ? 1 : 0;
    if (row.draws) {
      std::copy_n(row.logits.data() + op.first_id, op.vocab, logits.data() + r * op.row_stride);
      s.temperature = row.params.temperature, s.top_p = row.params.top_p, s.min_p = row.params.min_p;
      s.top_k = row.params.top_k;
      s.repetition = row.penalties.repetition, s.frequency = row.penalties.frequency;
      s.presence = row.penalties.presence;
      s.seed = row.key.seed, s.position = row.key.position, s.choice = row.key.choice;
      s.num_logprobs = row.num_logprobs;
      s.count_slot = row.has_penalties() ? static_cast<int32_t>(std::ssize(rows.span()) - 1 - r) : -1;
      s.bias_begin = num_bias, s.ban_begin = num_bans;
      for (const auto& [token, value] : row.bias) bias_token[num_bias] = token, bias[num_bias++] = value;
      for (const int32_t token : row.banned) banned[num_bans++] = token;
      s.bias_end = num_bias, s.ban_end = num_bans;
      for (const auto& [token, count] : row.seen) {
        const int64_t column = token - op.first_id;
        if (s.count_slot < 0 || column < 0 || column >= op.vocab) continue;
        counts[s.count_slot * op.count_stride + column] =
            static_cast<uint16_t>(count | (token % 2 == 0 || count == 0 ? 0x8000 : 0));
      }
    }
    rows[r] = s;
  }

  DeviceBuffer<DeviceSampling> rows;
  DeviceBuffer<float> logits;
  DeviceBuffer<int32_t> bias_token;
  DeviceBuffer<float> bias;
  DeviceBuffer<int32_t> banned;
  DeviceBuffer<uint16_t> counts;
  DeviceBuffer<std::byte> workspace;
  SamplingRows op;
};

DrawnToken Unwritten() {
  DrawnToken token{-7, kUnwritten, -7, {}, {}};
  std::fill_n(token.top_token, kMaxTopLogprobs, -7);
  std::fill_n(token.top_logprob, kMaxTopLogprobs, kUnwritten);
  return token;
}

/// Samples as SampleToken does, with the given uniform number and top-p.
int32_t DrawWith(const std::vector<float>& logits, const SamplingParams& params, double top_p, double uniform) {
  const Candidate best = ArgMax(logits);
  if (!std::isfinite(best.logit)) return best.token;
  std::vector<std::pair<float, int32_t>> order;
  for (size_t i = 0; i < logits.size(); ++i) order.emplace_back(-logits[i], static_cast<int32_t>(i));
  std::sort(order.begin(), order.end());
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size())
    order.resize(static_cast<size_t>(params.top_k));
  const auto weight = [&](size_t i) {
    return std::exp((-static_cast<double>(order[i].first) - best.logit) / params.temperature);
  };
  while (weight(order.size() - 1) < params.min_p) order.pop_back();
  double total = 0, mass = 0;
  for (size_t i = 0; i < order.size(); ++i) total += weight(i);
  for (size_t i = 0; i < order.size() && top_p < 1; ++i) {
    mass += weight(i);
    if (mass >= top_p * total) order.resize(i + 1);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  total = 0;
  for (size_t i = 0; i < order.size(); ++i) total += weight(i);
  double left = uniform * total;
  int32_t last = best.token;
  for (size_t i = 0; i < order.size(); ++i) {
    if (weight(i) == 0) continue;
    last = order[i].second;
    left -= weight(i);
    if (left < 0) break;
  }
  return last;
}

bool IsNearMiss(const SamplingRow& row, const std::vector<float>& edited, int32_t token) {
  const double uniform = UniformFromKey(row.key), top_p = row.params.top_p;
  for (const double du : {0.0, -1e-6, 1e-6}) {
    for (const double dp : {0.0, -1e-6, 1e-6}) {
      if (top_p + dp >= 1 && dp != 0) continue;
      if (DrawWith(edited, row.params, top_p + dp, uniform + du) == token) return true;
    }
  }
  return false;
}

bool Near(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 2e-5f; }

std::string LogprobDifference(const SamplingRow& row, const DrawnToken& drawn) {
  const std::vector<float> raw = row.Raw();
  const double log_sum_exp = LogSumExp(raw);
  const auto expected = static_cast<float>(raw[static_cast<size_t>(drawn.token)] - log_sum_exp);
  if (!Near(drawn.logprob, expected)) {
    return "log-probability " + std::to_string(drawn.logprob) + " instead of " + std::to_string(expected);
  }
  const auto top = TopLogprobs(raw, log_sum_exp, row.num_logprobs);
  if (drawn.num_top != std::ssize(top)) return std::to_string(drawn.num_top) + " top tokens";
  for (size_t i = 0; i < kMaxTopLogprobs; ++i) {
    const auto [token, logprob] = i < top.size() ? top[i] : std::pair(-7, kUnwritten);
    if (drawn.top_token[i] != token || !Near(drawn.top_logprob[i], logprob)) {
      return "top token " + std::to_string(i) + " is " + std::to_string(drawn.top_token[i]) + " (" +
             std::to_string(drawn.top_logprob[i]) + ") instead of " + std::to_string(token) + " (" +
             std::to_string(logprob) + ")";
    }
  }
  return "";
}

}  // namespace

bool SamplingRow::has_penalties() const {
  return penalties.repetition != 1 || penalties.frequency != 0 || penalties.presence != 0;
}

std::vector<float> SamplingRow::Raw() const {
  std::vector<float> raw = logits;
  for (float& x : raw) x = std::isnan(x) ? -kInf : x;
  return raw;
}

std::vector<float> SamplingRow::Edited() const {
  std::vector<float> edited = Raw();
  for (const auto& [token, value] : bias) edited[static_cast<size_t>(token)] += value;
  for (const int32_t token : banned) edited[static_cast<size_t>(token)] = -kInf;
  if (has_penalties()) {
    ApplyPenalties(edited, penalties, std::vector<std::pair<int32_t, int32_t>>(seen.begin(), seen.end()));
  }
  return edited;
}

SamplingRow RandomRow(test::Random& random, int64_t vocab) {
  SamplingRow row;
  const auto one_of = [&](std::initializer_list<double> values) {
    return values.begin()[random.Below(static_cast<int64_t>(values.size()))];
  };
  const double scale = one_of({0, 0.1, 1, 3, 6}), step = one_of({0, 0, 0.5});
  for (int64_t i = 0; i < vocab; ++i) {
    double logit = scale * (random.Signed() + random.Signed() + random.Signed()) + 5;
    if (step > 0) logit = std::round(logit / step) * step;
    row.logits.push_back(static_cast<float>(logit));
  }
  const auto any = [&] { return static_cast<int32_t>(random.Below(vocab)); };
  const auto some = [&](int chance) { return random.Below(chance) == 0; };
  for (int i = 0; some(4) && i < vocab / 3; ++i) row.logits[static_cast<size_t>(any())] = some(2) ? kNaN : -kInf;
  if (some(30)) row.logits[static_cast<size_t>(any())] = kInf;
  if (some(20)) row.logits[static_cast<size_t>(any())] = 3e38f;
  if (some(20)) std::fill(row.logits.begin() + vocab / 2, row.logits.end(), -3e38f);
  row.params.temperature = static_cast<float>(one_of({0, 0.3, 1, 1, 2.5, 100}));
  row.params.top_k = static_cast<int32_t>(one_of({0, 0, 0, 1, 3, 40, 400, 4000}));
  row.params.top_p = static_cast<float>(one_of({1, 1, 0.95, 0.5, 1e-6, 0.999}));
  row.params.min_p = static_cast<float>(one_of({0, 0, 0, 0.05, 1}));
  row.key = {random.Bits(), static_cast<uint32_t>(random.Bits()), some(2) ? random.Bits() : 17};
  if (some(3)) {
    row.penalties = {static_cast<float>(one_of({1, 1.3, 0.8})), static_cast<float>(one_of({0, 0.5, -0.25})),
                     static_cast<float>(one_of({0, 0.7}))};
    for (int i = 0; i < 50; ++i) row.seen[any()] = static_cast<int32_t>(random.Below(4));
    row.seen[any()] = 32767;
  }
  std::map<int32_t, float> bias;
  for (int i = 0; some(3) && i < 300; ++i) bias[any()] = 3 * random.Signed();
  row.bias.assign(bias.begin(), bias.end());
  if (some(4)) row.banned = {static_cast<int32_t>(vocab - 1)};
  if (some(4) && vocab > 1) row.banned.push_back(static_cast<int32_t>(random.Below(vocab - 1)));
  row.num_logprobs = static_cast<int>(one_of({-1, -1, 0, 1, 5, 20}));
  row.draws = !some(9);
  return row;
}

std::vector<int64_t> RandomShards(test::Random& random, int64_t vocab, int shards) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < shards; ++i) {
    sizes.push_back(random.Below(3) == 0 ? 0 : random.Below(vocab + 1));
    vocab -= sizes.back();
  }
  sizes.push_back(vocab);
  std::rotate(sizes.begin(), sizes.begin() + random.Below(shards), sizes.end());
  return sizes;
}

Drawn DrawWhole(const std::vector<SamplingRow>& batch) {
  Shard shard(batch, 0, std::ssize(batch[0].logits));
  const DeviceBuffer<DrawnToken> drawn(std::vector<DrawnToken>(batch.size(), Unwritten()));
  SampleRows({}, shard.op, drawn.data());
  return {{drawn.data(), drawn.data() + drawn.size()}};
}

Drawn DrawSharded(const std::vector<SamplingRow>& batch, const std::vector<int64_t>& sizes, int num_candidates) {
  const auto rows = static_cast<int64_t>(batch.size()), vocab = static_cast<int64_t>(batch[0].logits.size());
  const auto num_shards = static_cast<int64_t>(sizes.size()), bytes = ShardPartBytes(rows, num_candidates);
  const DeviceBuffer<std::byte> parts(num_shards * bytes, std::byte{0xa5});
  std::vector<Shard> shards;
  shards.reserve(sizes.size());
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); first += sizes[i++]) {
    shards.emplace_back(batch, first, sizes[i]);
    SummarizeShard({}, shards[i].op, num_candidates, parts.data() + static_cast<int64_t>(i) * bytes);
  }
  const DeviceBuffer<DrawnToken> drawn(std::vector<DrawnToken>(batch.size(), Unwritten()));
  const DeviceBuffer<ShardDraw> draws(rows, {DrawState::kDone, -1, 0, 0});
  const DrawFromPartsParams params{shards[0].rows.data(), parts.data(), rows,        static_cast<int>(num_shards),
                                   num_candidates,        drawn.data(), draws.data()};
  DrawFromParts({}, params);
  const DeviceBuffer<ShardToken> tokens(num_shards * rows);
  for (int i = 0; i < num_shards; ++i)
    DrawInShard({}, shards[static_cast<size_t>(i)].op, draws.data(), i, tokens.data() + i * rows);
  MergeShardDraws({}, params, tokens.data());

  Drawn result{{drawn.data(), drawn.data() + rows}};
  std::vector<int32_t> undecided;
  std::vector<SamplingRow> again;
  for (int64_t r = 0; r < rows; ++r) {
    if (draws[r].state == DrawState::kInShard) ++result.in_shard;
    if (draws[r].state == DrawState::kWholeRow) undecided.push_back(static_cast<int32_t>(r));
  }
  result.whole_row = static_cast<int>(undecided.size());
  if (undecided.empty()) return result;
  const auto count = std::ssize(undecided);
  const DeviceBuffer<int32_t> row_ids(undecided);
  for (const int32_t r : undecided) again.push_back(batch[static_cast<size_t>(r)]);
  Shard whole(again, 0, vocab);
  const DeviceBuffer<float> edited(count * vocab, kNaN);
  for (int64_t i = 0; i < whole.logits.size(); ++i) whole.logits[i] = kNaN;  // the raw logits come from the shards
  for (const Shard& shard : shards) {
    const int64_t width = shard.op.vocab;
    const DeviceBuffer<float> raw_part(count * width, kNaN), edited_part(count * width, kNaN);
    PackRows({}, shard.op, {row_ids.data(), count, raw_part.data(), edited_part.data()});
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(raw_part.data() + i * width, width,
                  whole.logits.data() + i * whole.op.row_stride + shard.op.first_id);
      std::copy_n(edited_part.data() + i * width, width, edited.data() + i * vocab + shard.op.first_id);
    }
  }
  whole.op.edited = edited.data();
  const DeviceBuffer<DrawnToken> redrawn(std::vector<DrawnToken>(undecided.size(), Unwritten()));
  SampleRows({}, whole.op, redrawn.data());
  for (int64_t i = 0; i < count; ++i) result.tokens[static_cast<size_t>(row_ids[i])] = redrawn[i];
  return result;
}

std::string Difference(const SamplingRow& row, const DrawnToken& drawn, int& near_misses) {
  if (!row.draws) {
    const DrawnToken unwritten = Unwritten();
    return std::memcmp(&drawn, &unwritten, sizeof(drawn)) == 0 ? "" : "a row that does not draw was written";
  }
  const std::vector<float> edited = row.Edited();
  const Candidate best = ArgMax(edited);
  // kernels/cpu defines no result for an infinite maximum; the expected token is then the best one.
  const int32_t expected = std::isfinite(best.logit) ? SampleToken(edited, row.params, row.key) : best.token;
  if (drawn.token < 0 || drawn.token >= std::ssize(row.logits)) return "token " + std::to_string(drawn.token);
  if (drawn.token != expected) {
    const bool draws = row.params.temperature > 0 && row.params.top_k != 1;
    if (!draws || !IsNearMiss(row, edited, drawn.token)) {
      return "token " + std::to_string(drawn.token) + " instead of " + std::to_string(expected);
    }
    ++near_misses;
  }
  if (!std::isfinite(best.logit)) return std::isnan(drawn.logprob) ? "" : "a row without numbers is not said to be one";
  return row.num_logprobs < 0 ? "" : LogprobDifference(row, drawn);
}

}  // namespace quire::kernels
