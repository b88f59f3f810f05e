#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "worker/cuda/device.h"

namespace quire::bench {

/// One way to do a case. `queue` queues one call; `turn` chooses among the buffers that calls rotate through.
struct Variant {
  std::string name;
  std::function<void(int64_t turn)> queue;
};

/// Where the variants of a case leave their result, to be checked (result_check.h).
struct Output {
  void* data = nullptr;  // null: nothing is checked
  int64_t bytes = 0;
  int64_t row = 0;                   // > 0: rows of so many bf16 numbers, alike for all variants
  std::string judge_name = {};       // of another way, too slow to be timed, that they must be like, too
  std::function<void()> judge = {};  // queues it, over the last set of buffers
};

/// What all variants of a case do, by formulas that are printed, not by what a variant happens to move.
struct Case {
  std::string section, name;
  double bytes = 0, flops = 0;  // of one call; 0: not told
  std::string formula;          // in words, for both
  int64_t sets = 1;             // buffers that calls rotate through
  Json facts = Json::object();  // shown with the results
  Output output = {};           // written whole by every call, from nothing that another call wrote
};

struct Timing {
  double median = 0, min = 0, max = 0;  // seconds of one call
};

/// Larger than any cache: what a case rotates through before it comes back to the same bytes.
inline constexpr int64_t kColdBytes = int64_t{320} << 20;
inline constexpr int64_t SetsFor(int64_t bytes) { return bytes >= kColdBytes ? 1 : (kColdBytes + bytes - 1) / bytes; }

/// Measures variants side by side and keeps the results.
class Bench {
 public:
  Bench(Device& device, int rounds) : device_(device), rounds_(rounds) {}

  Device& device() { return device_; }

  /// Times all variants of a case: each is captured as a graph of many calls, so that the host's launches do not count;
  /// after one warm-up come `rounds` rounds in which every variant has its turn. Prints and keeps one row each, and
  /// checks the case's output.
  std::vector<Timing> Measure(const Case& c, const std::vector<Variant>& variants);

  /// What fractions of later results are of, in bytes and operations per second.
  void SetCeilings(double copy, double read, double flops) { copy_ = copy, read_ = read, flops_ = flops; }

  /// Keeps and prints a row that was measured otherwise.
  void Keep(const Case& c, const std::string& variant, const Timing& timing);

  /// {"device": .., "ceilings": .., "results": [..], "checks": [..]}
  Json Report() const;

  int64_t num_checks() const { return static_cast<int64_t>(checks_.size()); }
  int64_t num_wrong() const { return wrong_; }

 private:
  /// Each variant's graph leaves the very bytes that a call by itself leaves, and what all variants leave is alike.
  void Check(const Case& c, const std::vector<Variant>& variants, const std::vector<const DeviceGraph*>& graphs);

  Device& device_;
  int rounds_;
  double copy_ = 0, read_ = 0, flops_ = 0;
  std::string last_case_;
  Json results_ = Json::array(), checks_ = Json::array();
  int64_t wrong_ = 0;  // of the checks
};

/// The middle, the least and the most of some seconds.
Timing Summarise(std::vector<double> seconds);

// The sections, each for itself.
void BenchCeilings(Bench& bench);
void BenchDecodeAttention(Bench& bench);
void BenchPrefillAttention(Bench& bench);
void BenchProducts(Bench& bench);
void BenchSmallOps(Bench& bench);
void BenchSampling(Bench& bench);

}  // namespace quire::bench
