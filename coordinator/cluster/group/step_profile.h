#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/core/command.h"

namespace quire {

/// A recording of what the engine's thread and the ranks of its group do, step by step, for as long as somebody wants
/// it. One thread: the engine's. While nothing is recorded it costs a comparison.
class StepProfile {
 public:
  using Clock = std::chrono::steady_clock;
  /// What comes after so many spans is counted only: about 2 MB as JSON.
  static constexpr size_t kMostSpans = 20'000;

  struct Span {
    const char* name;  // a literal
    Rank rank;         // or kEngine
    Clock::time_point begin, end;
    StepId step = 0;           // of a rank
    uint32_t swap_micros = 0;  // of a rank: of the span's time, moving blocks
  };
  static constexpr Rank kEngine = -1;

  struct Recording {
    Clock::time_point begin;
    std::vector<Span> spans;  // as they ended
    size_t num_left_out = 0;
  };

  /// Forgets what was recorded, and records from now on.
  void Begin() {
    recording_ = {Clock::now(), {}, 0};
    records_ = true;
  }
  Recording End() {
    records_ = false;
    return std::exchange(recording_, {});
  }
  bool records() const { return records_; }

  /// A rank has answered: it computed until now. The way of the answer counts as its time.
  void Answered(Rank rank, StepId step, const StepTimes& times) {
    if (!records_) return;
    const auto now = Clock::now();
    Add({"step", rank, now - std::chrono::microseconds(times.compute_micros), now, step, times.swap_micros});
  }

  /// Does something as a span of the engine's thread.
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
    if (span.begin < recording_.begin) return;  // it began before the recording did
    if (recording_.spans.size() < kMostSpans) {
      recording_.spans.push_back(span);
    } else {
      ++recording_.num_left_out;
    }
  }

  bool records_ = false;
  Recording recording_;
};

/// Appends a recording to the events of a trace as browsers and Perfetto show it: a process for the replica, a thread
/// for the engine and one for each rank. Times are microseconds since `begin`.
void AppendTrace(const StepProfile::Recording& recording, int replica, StepProfile::Clock::time_point begin,
                 std::string& events);

}  // namespace quire
