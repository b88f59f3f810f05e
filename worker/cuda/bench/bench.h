#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "worker/cuda/device/device.h"

namespace quire::bench {

/// One way to compute a case. `queue` queues one call; its argument `turn` selects the set of buffers.
struct Variant {
  std::string name;
  std::function<void(int64_t turn)> queue;
};

/// Says where the variants of a case write their result, so that results can be checked (result_check.h).
struct Output {
  void* data = nullptr;  // null: no check
  int64_t bytes = 0;
  int64_t row = 0;                   // > 0: the result has rows of `row` bf16 numbers, comparable between variants
  std::string judge_name = {};       // name of an untimed reference method, if any
  std::function<void()> judge = {};  // queues the reference method, on the last set of buffers
};

/// Describes what a case measures. Bytes and operations come from the formulas that are printed; a variant may need
/// more or fewer.
struct Case {
  std::string section, name;
  double bytes = 0, flops = 0;  // work of one call; 0: not reported
  std::string formula;          // the formula of both numbers, in words
  int64_t sets = 1;             // number of buffer sets through which calls rotate
  Json facts = Json::object();  // reported with the results
  Output output = {};           // every call writes all of it and reads no other call's output
};

struct Timing {
  double median = 0, min = 0, max = 0;  // seconds per call
};

/// A case goes through at least this many bytes before it uses the same bytes again. This is more than any cache holds.
inline constexpr int64_t kColdBytes = int64_t{320} << 20;
inline constexpr int64_t SetsFor(int64_t bytes) { return bytes >= kColdBytes ? 1 : (kColdBytes + bytes - 1) / bytes; }

/// Times several ways to compute the same result, one beside another, and stores the results.
class Bench {
 public:
  Bench(Device& device, int rounds) : device_(device), rounds_(rounds) {}

  Device& device() { return device_; }

  /// Times all variants of a case. Each variant is captured as a graph of many calls, so that launches by the host do
  /// not count. After one warm-up, the variants take turns for `rounds` rounds. Prints and stores one row for each
  /// variant, and checks the output.
  std::vector<Timing> Measure(const Case& c, const std::vector<Variant>& variants);

  /// Sets the rates, in bytes and operations per second, with which later results are compared.
  void SetCeilings(double copy, double read, double flops) { copy_ = copy, read_ = read, flops_ = flops; }

  /// Keeps and prints a row that was measured in another way.
  void Keep(const Case& c, const std::string& variant, const Timing& timing);

  /// Returns the report: {"device": .., "ceilings": .., "results": [..], "checks": [..]}.
  Json Report() const;

  int64_t num_checks() const { return static_cast<int64_t>(checks_.size()); }
  int64_t num_wrong() const { return wrong_; }

 private:
  /// Reports and counts wrong variants: the graph leaves other bytes than a single call does, or the results are not
  /// close to those of the reference method or, without a reference, of the last variant.
  void Check(const Case& c, const std::vector<Variant>& variants, const std::vector<const DeviceGraph*>& graphs);

  Device& device_;
  int rounds_;
  double copy_ = 0, read_ = 0, flops_ = 0;
  std::string last_case_;
  Json results_ = Json::array(), checks_ = Json::array();
  int64_t wrong_ = 0;  // number of wrong checks
};

/// Returns the median, minimum and maximum of some seconds.
Timing Summarise(std::vector<double> seconds);

// Each of these functions measures one section of the benchmark.
void BenchCeilings(Bench& bench);
void BenchDecodeAttention(Bench& bench);
void BenchPrefillAttention(Bench& bench);
void BenchProducts(Bench& bench);
void BenchSmallOps(Bench& bench);
void BenchSampling(Bench& bench);

}  // namespace quire::bench
