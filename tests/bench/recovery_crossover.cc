#include "tests/bench/recovery_crossover.h"

#include <fmt/format.h>

#include <set>

namespace quire {

std::vector<RecoveryPoint> ModelRecovery(const SwapCost& cost) {
  std::vector<RecoveryPoint> points;
  for (int block_size = 1; block_size <= 256; block_size *= 2) {
    for (int tokens = 128; tokens <= 2048; tokens *= 2) {
      const int blocks = (tokens + block_size - 1) / block_size;
      const double copy =
          cost.seconds_per_copy + cost.bytes_per_token * block_size / cost.copies_per_block / cost.bytes_per_second;
      points.push_back(
          {block_size, tokens, 2 * blocks * cost.copies_per_block * copy, tokens * cost.recompute_per_token});
    }
  }
  return points;
}

std::string RecoveryTable(const std::vector<RecoveryPoint>& points) {
  std::set<int> lengths;
  for (const RecoveryPoint& p : points) lengths.insert(p.tokens);
  std::string out = fmt::format("{:<12}", "block size");
  for (const int tokens : lengths) out += fmt::format("{:>22}", fmt::format("{} tokens", tokens));
  for (size_t i = 0; i < points.size(); ++i) {
    const RecoveryPoint& p = points[i];
    if (i == 0 || points[i - 1].block_size != p.block_size) out += fmt::format("\n{:<12}", p.block_size);
    const bool swap = p.swap_seconds < p.recompute_seconds;
    const double factor = swap ? p.recompute_seconds / p.swap_seconds : p.swap_seconds / p.recompute_seconds;
    out += fmt::format("{:>22}", fmt::format("{} {:.2f}x", swap ? "swap" : "recompute", factor));
  }
  return out + "\n";
}

Json RecoveryJson(const std::vector<RecoveryPoint>& points) {
  Json list = Json::array();
  for (const RecoveryPoint& p : points) {
    list.push_back({{"block_size", p.block_size},
                    {"tokens", p.tokens},
                    {"swap_seconds", p.swap_seconds},
                    {"recompute_seconds", p.recompute_seconds}});
  }
  return list;
}

}  // namespace quire
