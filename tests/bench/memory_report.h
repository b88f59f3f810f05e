#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "tests/bench/memory_policies.h"
#include "tests/bench/memory_trace.h"

namespace quire {

/// The settings of the memory benchmark, which measures on a simulated server the memory that paging saves.
struct MemoryBench {
  MemorySetup setup;
  int num_requests = 2000;  // requests of each trace
  uint64_t seed = 1;
  std::vector<LengthDistribution> traces = {LengthDistribution::kShareGpt, LengthDistribution::kAlpaca,
                                            LengthDistribution::kUniform};
  double latency_limit = 0.1;  // seconds per output token; it defines the rate that a policy sustains (SustainedRate)
};

/// The result of one simulation.
struct MemoryRun {
  LengthDistribution lengths;
  KvPolicy policy;
  int block_size;              // block size in tokens; kPaged only
  double requests_per_second;  // offered; 0: all requests arrive at time 0
  MemoryResult result;
};

struct MemoryReport {
  MemoryBench bench;
  std::vector<MemoryRun> policies;     // all requests arrive at time 0
  std::vector<MemoryRun> block_sizes;  // kPaged, all requests arrive at time 0, blocks of 1, 2, 4 .. 256 tokens
  std::vector<MemoryRun> rates;        // Poisson arrivals; the highest rates are more than any policy can serve
};

/// Runs every policy on every trace. The same settings give the same report.
MemoryReport RunMemoryBench(const MemoryBench& bench);

/// Returns the Poisson rate at which the mean normalised latency reaches bench.latency_limit, interpolated between
/// simulated rates; nullopt when the limit is not reached between them.
std::optional<double> SustainedRate(const MemoryReport& report, LengthDistribution lengths, KvPolicy policy);

/// Returns the report as tables for people, in lines of at most 120 columns.
std::string TableOf(const MemoryReport& report);

/// Returns the report as JSON for programs: the setup and every run. Shares of the capacity are between 0 and 1.
Json JsonOf(const MemoryReport& report);

}  // namespace quire
