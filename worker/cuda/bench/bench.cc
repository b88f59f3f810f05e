#include "worker/cuda/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "worker/cuda/bench/result_check.h"

namespace quire::bench {

namespace {

constexpr double kSampleSeconds = 1e-3;  // approximate duration of one graph
constexpr int64_t kMaxCalls = 400;       // most calls in a graph, unless there are more sets of buffers
constexpr int kBegin = 6, kEnd = 7;      // stream marks

double SecondsOf(Device& device, const std::function<void()>& queue) {
  device.SetMark(kBegin);
  queue();
  device.SetMark(kEnd);
  device.Await(kEnd);
  return device.SecondsBetween(kBegin, kEnd);
}

struct Recorded {
  std::unique_ptr<DeviceGraph> graph;
  int64_t calls;
};

Recorded Record(Device& device, const Variant& variant, int64_t sets) {
  variant.queue(0);  // does what is done only at the first use
  device.Synchronize();
  const double once = SecondsOf(device, [&] { variant.queue(sets - 1); });
  const auto wanted = std::clamp(static_cast<int64_t>(kSampleSeconds / once), sets, std::max(sets, kMaxCalls));
  const int64_t calls = (wanted + sets - 1) / sets * sets;  // a multiple of `sets`; the last call uses the last set
  auto graph = device.Capture([&] {
    for (int64_t call = 0; call < calls; ++call) variant.queue(call % sets);
  });
  return {std::move(graph), calls};
}

}  // namespace

Timing Summarise(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds.front(), seconds.back()};
}

std::vector<Timing> Bench::Measure(const Case& c, const std::vector<Variant>& variants) {
  std::vector<Recorded> recorded;
  for (const Variant& variant : variants) recorded.push_back(Record(device_, variant, c.sets));
  std::vector<std::vector<double>> seconds(variants.size());
  for (int round = -1; round < rounds_; ++round) {
    for (size_t v = 0; v < variants.size(); ++v) {
      const double whole = SecondsOf(device_, [&] { device_.Launch(*recorded[v].graph); });
      if (round >= 0) seconds[v].push_back(whole / static_cast<double>(recorded[v].calls));
    }
  }
  std::vector<Timing> timings;
  for (size_t v = 0; v < variants.size(); ++v) {
    timings.push_back(Summarise(std::move(seconds[v])));
    Keep(c, variants[v].name, timings.back());
  }
  std::vector<const DeviceGraph*> graphs;
  for (const Recorded& r : recorded) graphs.push_back(r.graph.get());
  Check(c, variants, graphs);
  return timings;
}

void Bench::Check(const Case& c, const std::vector<Variant>& variants, const std::vector<const DeviceGraph*>& graphs) {
  if (c.output.data == nullptr) return;
  std::vector<std::vector<std::byte>> alone;
  for (const Variant& variant : variants) {
    alone.push_back(ResultOf(device_, c.output, [&] { variant.queue(c.sets - 1); }));
  }
  const bool judged = static_cast<bool>(c.output.judge);
  const std::vector<std::byte> expected = judged ? ResultOf(device_, c.output, c.output.judge) : alone.back();
  for (size_t v = 0; v < variants.size(); ++v) {
    const bool same = ResultOf(device_, c.output, [&] { device_.Launch(*graphs[v]); }) == alone[v];
    Json check = {{"section", c.section}, {"case", c.name}, {"variant", variants[v].name}, {"graph_equals_call", same}};
    bool good = same;
    if (c.output.row > 0 && (judged || v + 1 < variants.size())) {
      const double difference = WorstRow(alone[v], expected, c.output.row);
      check["against"] = judged ? c.output.judge_name : variants.back().name;
      check["difference"] = std::min(difference, 1e9);  // JSON has no infinity
      check["tolerance"] = kRowTolerance;
      good &= difference <= kRowTolerance;
    }
    check["good"] = good;
    if (!good) {
      ++wrong_;
      fmt::print("  WRONG: {}\n", DumpJson(check));
    }
    checks_.push_back(std::move(check));
  }
}

void Bench::Keep(const Case& c, const std::string& variant, const Timing& t) {
  Json row = {{"section", c.section},        {"case", c.name},        {"variant", variant},
              {"median_us", 1e6 * t.median}, {"min_us", 1e6 * t.min}, {"max_us", 1e6 * t.max},
              {"rounds", rounds_},           {"sets", c.sets},        {"formula", c.formula}};
  for (const auto& [name, value] : c.facts.items()) row[name] = value;
  std::string rates;
  if (c.bytes > 0) {
    row["bytes"] = c.bytes;
    row["gb_per_s"] = c.bytes / t.median * 1e-9;
    rates += fmt::format(" {:8.1f} GB/s", c.bytes / t.median * 1e-9);
    if (copy_ > 0) {
      row["of_copy"] = c.bytes / t.median / copy_;
      row["of_read"] = c.bytes / t.median / read_;
      rates += fmt::format(" {:5.3f} of copy", c.bytes / t.median / copy_);
    }
  }
  if (c.flops > 0) {
    row["flops"] = c.flops;
    row["tflop_per_s"] = c.flops / t.median * 1e-12;
    rates += fmt::format(" {:7.1f} TFLOP/s", c.flops / t.median * 1e-12);
    if (flops_ > 0) row["of_gemm"] = c.flops / t.median / flops_;
  }
  if (const std::string title = c.section + ": " + c.name; title != last_case_) {
    fmt::print("{}{}\n", title, c.formula.empty() ? "" : "  [" + c.formula + "]");
    last_case_ = title;
  }
  fmt::print("  {:<26} {:>10.2f} us ({:.2f} to {:.2f}){}\n", variant, 1e6 * t.median, 1e6 * t.min, 1e6 * t.max, rates);
  std::fflush(stdout);
  results_.push_back(std::move(row));
}

Json Bench::Report() const {
  return {{"device", {{"name", device_.name()}, {"sm", device_.compute_capability()}, {"sms", device_.num_sms()}}},
          {"ceilings",
           {{"copy_gb_per_s", copy_ * 1e-9}, {"read_gb_per_s", read_ * 1e-9}, {"bf16_tflop_per_s", flops_ * 1e-12}}},
          {"rules",
           "random data; calls rotate through more than 320 MB; graphs of many calls between two events; one warm-up, "
           "then rounds in which all variants of a case take turns; median (least to most)"},
          {"results", results_},
          {"checks", checks_}};
}

}  // namespace quire::bench
