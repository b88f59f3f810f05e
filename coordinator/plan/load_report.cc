#include "coordinator/plan/load_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/percentile.h"

namespace quire {

namespace {

/// Returns a bar whose length is proportional to value / largest.
std::string Bar(double value, double largest) {
  constexpr double kCells = 24;
  return std::string(largest > 0 ? static_cast<size_t>(value / largest * kCells + 0.5) : 0, '#');
}

}  // namespace

void PrintLoads(const std::vector<LoadRow>& rows) {
  fmt::print("\n{:>5}  {:>8}  {:>8}  {:>7}  {:>17}  {:>17}  {:>6}  {:>7}  {}\n", "rate", "req/s", "tok/s", "at once",
             "first token, s", "each token, ms", "cached", "failed", "tok/s");
  fmt::print("{:>5}  {:>8}  {:>8}  {:>7}  {:>8} {:>8}  {:>8} {:>8}\n", "", "", "", "", "median", "99 %", "median",
             "99 %");
  const double most = std::ranges::max(rows, {}, &LoadRow::tokens_a_second).tokens_a_second;
  for (const LoadRow& row : rows) {
    const auto share = [](int64_t part, int64_t all) {
      return all > 0 ? 100 * static_cast<double>(part) / static_cast<double>(all) : 0;
    };
    fmt::print("{:>5}  {:>8.2f}  {:>8.1f}  {:>7.1f}  {:>8.2f} {:>8.2f}  {:>8.1f} {:>8.1f}  {:>4.0f} %  {:>7}  {}\n",
               row.rate, row.requests_a_second, row.tokens_a_second, row.mean_running, Percentile(row.first_token, 0.5),
               Percentile(row.first_token, 0.99), Percentile(row.each_token, 0.5) * 1e3,
               Percentile(row.each_token, 0.99) * 1e3, share(row.cached_tokens, row.prompt_tokens),
               row.refused + row.timed_out, Bar(row.tokens_a_second, most));
  }
}

Json JsonOf(const std::vector<LoadRow>& rows) {
  Json all = Json::array();
  for (const LoadRow& row : rows) {
    Json quantiles = Json::object();
    for (const auto& [name, values] :
         {std::pair("first_token_seconds", &row.first_token), std::pair("each_token_seconds", &row.each_token)}) {
      for (const double share : {0.5, 0.9, 0.99})
        quantiles[name][fmt::format("{}", share)] = Percentile(*values, share);
    }
    all.push_back({{"rate", row.rate},
                   {"requests_a_second", row.requests_a_second},
                   {"tokens_a_second", row.tokens_a_second},
                   {"sequences_a_step", row.mean_running},
                   {"answered", row.answered},
                   {"refused", row.refused},
                   {"timed_out", row.timed_out},
                   {"prompt_tokens", row.prompt_tokens},
                   {"cached_tokens", row.cached_tokens}});
    all.back().update(quantiles);
  }
  return all;
}

Json JsonOf(const std::vector<SpeedRow>& rows) {
  Json all = Json::array();
  for (const SpeedRow& row : rows) {
    all.push_back({{"sequences", row.sequences},
                   {"tokens", row.tokens},
                   {"seconds", row.expected},
                   {"roofline_seconds", row.roofline},
                   {"bound", row.bound}});
  }
  return all;
}

}  // namespace quire
