#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/command.h"

namespace quire {

/// Records what the engine's thread and the ranks of its group do in each step, while an operator has asked for a
/// profile. Belongs to the engine's thread. While nothing is recorded, a call costs one comparison.
class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;
  /// The most recorded spans; further spans are only counted. 20,000 spans are about 2 MB of JSON.
  static constexpr size_t kMostSpans = 20'000;

  struct Span {
    const char* name;  // a string literal
    Rank rank;         // a rank, or kEngine for the engine's thread
    Clock::time_point begin, end;
    StepId step = 0;           // rank spans only
    uint32_t swap_micros = 0;  // rank spans only: time spent on moving blocks
  };
  static constexpr Rank kEngine = -1;

  struct Recording {
    Clock::time_point begin;
    std::vector<Span> spans;  // ordered by end time
    size_t num_left_out = 0;
  };

  /// Clears the recording and starts a new one.
  void Begin() {
    recording_ = {Clock::now(), {}, 0};
    records_ = true;
  }
  Recording End() {
    records_ = false;
    return std::exchange(recording_, {});
  }
  bool records() const { return records_; }

  /// Records a rank's step when its answer has arrived. The span ends now and is as long as the rank computed, so it
  /// lies too late by the time that the answer was on its way.
  void Answered(Rank rank, StepId step, const StepTimes& times) {
    if (!records_) return;
    const auto now = Clock::now();
    Add({"step", rank, now - std::chrono::microseconds(times.compute_micros), now, step, times.swap_micros});
  }

  /// Runs `work` and records it as a span of the engine's thread.
  template <class Work>
  auto Record(const char* name, Work work) {
    struct AtEnd {
      ~AtEnd() {
        if (profile.records_) profile.Add({name, kEngine, begin, Clock::now()});
      }
      StepProfile& profile;
      const char* name;
      Clock::time_point begin;
    };
    const AtEnd at_end{*this, name, records_ ? Clock::now() : Clock::time_point()};
    return work();
  }

 private:
  void Add(const Span& span) {
    if (span.begin < recording_.begin) return;  // began before the recording
    if (recording_.spans.size() < kMostSpans) {
      recording_.spans.push_back(span);
    } else {
      ++recording_.num_left_out;
    }
  }

  bool records_ = false;
  Recording recording_;
};

/// Appends a recording to the events of a trace in the format of browsers and Perfetto, with one process per replica,
/// one thread for the engine and one for each rank. Times are microseconds since `begin`.
void AppendTrace(const StepProfile::Recording& recording, int replica, StepProfile::Clock::time_point begin,
                 std::string& events);

}  // namespace quire
