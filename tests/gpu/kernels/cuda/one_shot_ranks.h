#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "simt/device_buffer.h"

namespace quire::kernels {

/// Chooses a rank that starts late, unless `hold` is kNobody. The values kBeforeSending and kBeforeWaiting differ only
/// in the emulator. On a device, a test cannot stop a kernel between two instructions, so the rank sleeps before its
/// launch.
struct Schedule {
  enum class Hold { kNobody, kBeforeSending, kBeforeWaiting };
  Hold hold = Hold::kNobody;
  int rank = 0;
};

/// A one-shot group whose ranks are threads of the test. Each rank has its own stream on one device, because the
/// operations are built with per-thread default streams.
class OneShotRanks {
 public:
  OneShotRanks(int size, int64_t capacity, uint32_t operation = 0)
      : size_(size), capacity_(capacity), began_(static_cast<size_t>(size)) {
    const int64_t words = OneShotArenaBytes(size, capacity) / 4, header = kOneShotHeaderBytes / 4;
    for (int r = 0; r < size; ++r) {
      arenas_.push_back(std::make_unique<simt::DeviceBuffer<uint32_t>>(words, ~0u));
      auto& arena = *arenas_.back();
      for (int64_t i = 0; i < header; ++i) arena[i] = i == 0 || i >= 4 ? operation : 0;
      controls_.push_back(std::make_unique<simt::DeviceBuffer<uint32_t>>(kOneShotControlWords));
    }
  }

  int size() const { return size_; }
  OneShotGroup Group(int rank) {
    OneShotGroup group{rank, size_, capacity_, {}, controls_[static_cast<size_t>(rank)]->data()};
    for (int r = 0; r < size_; ++r) group.arenas[r] = arenas_[static_cast<size_t>(r)]->data();
    return group;
  }
  uint32_t Control(int rank, int word) { return std::atomic_ref((*controls_[static_cast<size_t>(rank)])[word]).load(); }
  void Abort() {
    for (auto& control : controls_) std::atomic_ref((*control)[0]).store(1);
  }
  bool aborted() { return Control(0, 0) != 0; }

  /// Calls body(operation, group) for every operation in order, on one thread for each rank. A group is aborted when it
  /// hangs for 30 s, or when a rank throws.
  template <class Body>
  void Run(int operations, const Schedule& schedule, Body body) {
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size_));
    std::vector<std::thread> threads;
    std::atomic<int> running = size_;
    for (int r = 0; r < size_; ++r) {
      threads.emplace_back([&, r] {
        try {
          for (int operation = 0; operation < operations; ++operation) {
            const bool late = schedule.hold != Schedule::Hold::kNobody && schedule.rank == r;
            if (late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            began_[static_cast<size_t>(r)] = true;
            body(operation, Group(r));
          }
        } catch (...) {
          errors[static_cast<size_t>(r)] = std::current_exception();
          Abort();
        }
        --running;
      });
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (running > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (running > 0) Abort();
    for (auto& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  /// True when the rank waits for others. The test assumes this 100 ms after the rank has begun.
  bool waits(int rank) const {
    if (!began_[static_cast<size_t>(rank)]) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return true;
  }

 private:
  int size_;
  int64_t capacity_;
  std::vector<std::unique_ptr<simt::DeviceBuffer<uint32_t>>> arenas_, controls_;
  std::vector<std::atomic<bool>> began_;
};

}  // namespace quire::kernels
