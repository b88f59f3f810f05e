#include "tests/sim/judge.h"

#include "comm/base/error.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

int64_t BlocksAtLongest(const Ask& ask, const EngineOptions& options) {
  const int64_t size = options.blocks.block_size, window = options.blocks.sliding_window;
  // The last token's keys are never read.
  int64_t tokens = static_cast<int64_t>(ask.prompt.size()) + ask.limits.max_tokens - 1;
  // With a window, a sequence needs the window, the tokens of one step, and a partial block at either end.
  if (window > 0) tokens = std::min(tokens, window + options.scheduler.max_step_tokens + 2 * size);
  return ask.n * ((tokens + size - 1) / size + options.blocks.state_blocks);
}

std::string RightRefusal(const Ask& ask, const EngineOptions& options, int usable_blocks) {
  const int answer = ask.limits.max_tokens - (options.scheduler.whole_prompts() ? 1 : 0);
  if (static_cast<int>(ask.prompt.size()) + answer > options.max_model_len) return "this model serves";
  if (ask.n > options.scheduler.max_running) return "sequences";
  if (BlocksAtLongest(ask, options) > usable_blocks) return "KV cache";
  const ClientLimits& own = ask.client_limits;
  if (own.max_running_seqs > 0 && ask.n > own.max_running_seqs) return "max_running_seqs";
  return own.max_blocks > 0 && BlocksAtLongest(ask, options) > own.max_blocks ? "max_blocks" : "";
}

void Judge::Changed(const LiveOptions& options) {
  options_.max_wait_seconds = options.max_wait_seconds;
  options_.max_request_seconds = options.max_request_seconds;
  cached_ = cached_ || options.prefix_caching;
}

void Judge::Took(RequestId id, const Ask& ask, double now) {
  Record& record = records_[id];
  record.ask = ask;
  record.arrival = now;
}

void Judge::Departed(RequestId id, bool with_blocks) {
  Record& record = records_.at(id);
  record.away = record.swapped = true;
  record.restarted = record.restarted || !with_blocks;
}

void Judge::CameBack(RequestId id, bool with_blocks) {
  Record& record = records_.at(id);
  record.away = false;
  record.restarted = record.restarted || !with_blocks;
}

void Judge::Computed(RequestId id, int count, int drawn) {
  Record& record = records_.at(id);
  record.computed += count;
  record.drawn += drawn;
  if (drawn > 0) record.lost = record.lost_alone = 0;
}

void Judge::GroupLost(const std::set<RequestId>& computed) {
  for (const RequestId id : computed) {
    Record& record = records_.at(id);
    ++record.lost;
    if (computed.size() == 1) ++record.lost_alone;
  }
  for (auto& [id, record] : records_) record.restarted = true;
}

int Judge::BlocksNeeded() const {
  int64_t most = 0;
  for (const auto& [id, record] : records_) {
    if (!record.away) most = std::max(most, BlocksAtLongest(record.ask, options_));
  }
  return static_cast<int>(most) + 1;
}

double Judge::MaxSeconds(const Record& record) const {
  const double wish = record.ask.limits.max_seconds;
  return wish > 0 && wish < options_.max_request_seconds ? wish : options_.max_request_seconds;
}

Endings Judge::OverdueBy(double now, double rounding) const {
  Endings due;
  for (const auto& [id, record] : records_) {
    if (record.away) continue;
    const double age = now - record.arrival - rounding, most = MaxSeconds(record);
    if (!record.began && age > options_.max_wait_seconds) {
      due[id] = {RequestError::kNoRoom, fmt::format("no room within {} s", options_.max_wait_seconds)};
    } else if (age > most) {
      const bool wished = most < options_.max_request_seconds;
      due[id] = {wished ? RequestError::kDeadline : RequestError::kTimedOut, fmt::format("not done within {} s", most)};
    }
  }
  return due;
}

Endings Judge::GivenUp(int usable_blocks) const {
  Endings due;
  for (const auto& [id, record] : records_) {
    if (record.away) continue;
    if (options_.max_lost_epochs > 0 && record.lost_alone >= options_.max_lost_epochs) {
      due[id] = {RequestError::kGivenUp, fmt::format("lost {} times", options_.max_lost_epochs)};
    } else if (BlocksAtLongest(record.ask, options_) > usable_blocks) {
      due[id] = {RequestError::kGivenUp, fmt::format("has {} blocks", usable_blocks)};
    }
  }
  return due;
}

Endings Judge::All(const Ending& ending) const {
  Endings all;
  for (const auto& [id, record] : records_) {
    if (!record.away) all[id] = ending;
  }
  return all;
}

void Judge::CheckWork(RequestId id, int cached_tokens) const {
  const Record& record = records_.at(id);
  // The sum of computed and cached tokens is unknown for a request that began again after a loss. It is also unknown
  // for a request that comes back from host memory, which may find an unknown number of further tokens in the cache.
  if (record.restarted || (record.swapped && cached_)) return;
  const int64_t needed = static_cast<int64_t>(record.ask.prompt.size()) - 1 + record.drawn;
  if (record.computed + cached_tokens != needed) {
    throw Failure{fmt::format("request {}: {} tokens computed and {} from the cache, where {} are needed", id,
                              record.computed, cached_tokens, needed)};
  }
}

}  // namespace quire::sim
