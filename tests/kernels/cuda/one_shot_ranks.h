#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <thread>
#include <vector>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "simt/active_bug.h"
#include "simt/device_buffer.h"
#include "simt/executor.h"
#include "simt/system_sync.cuh"

namespace quire::kernels {

/// Holds one rank back at a chosen point, which reproduces orders that occur by chance on GPUs. Works for operations of
/// one thread block.
struct Schedule {
  enum class Hold { kNobody, kBeforeSending, kBeforeWaiting };
  Hold hold = Hold::kNobody;
  int rank = 0;
};

/// A one-shot group whose ranks are threads of the test and GPUs of the emulator.
class OneShotRanks {
 public:
  /// Every byte that no rank sent is NaN. `operation` is the number of earlier operations, modulo 2^32.
  OneShotRanks(int size, int64_t capacity, uint32_t operation = 0)
      : size_(size), capacity_(capacity), progress_(static_cast<size_t>(size)) {
    const auto words = static_cast<size_t>(OneShotArenaBytes(size, capacity) / 16);
    for (int r = 0; r < size; ++r) {
      arenas_.emplace_back(words, Chunk{{~0u, ~0u, ~0u, ~0u}});
      for (size_t i = 0; i < static_cast<size_t>(kOneShotHeaderBytes / 16); ++i) {
        arenas_.back()[i] = {{operation, operation, operation, operation}};
      }
      arenas_.back()[0] = {{operation, 0, 0, 0}};
      controls_.emplace_back(kOneShotControlWords);
    }
  }

  int size() const { return size_; }
  OneShotGroup Group(int rank) {
    OneShotGroup group{rank, size_, capacity_, {}, controls_[static_cast<size_t>(rank)].data()};
    for (int r = 0; r < size_; ++r) group.arenas[r] = arenas_[static_cast<size_t>(r)].data();
    return group;
  }
  uint32_t Control(int rank, int word) {
    return std::atomic_ref(controls_[static_cast<size_t>(rank)][static_cast<size_t>(word)]).load();
  }
  void Abort() {
    for (auto& control : controls_) std::atomic_ref(control[0]).store(1);
  }
  bool aborted() { return Control(0, 0) != 0; }

  /// Calls body(operation, group) for every operation in order, on one thread for each rank. An exception, or a rank
  /// that is stuck for 30 s, aborts the group. The first exception is thrown again.
  template <class Body>
  void Run(int operations, const Schedule& schedule, Body body) {
    std::vector<std::exception_ptr> errors(static_cast<size_t>(size_));
    std::vector<std::thread> threads;
    std::atomic<int> running = size_;
    for (Progress& progress : progress_) progress.waits_in = -1;
    for (int r = 0; r < size_; ++r) {
      threads.emplace_back([&, r, bug = simt::ActiveBug()] {
        simt::ActiveBug() = bug;
        try {
          RunRank(r, operations, schedule, body);
        } catch (...) {
          errors[static_cast<size_t>(r)] = std::current_exception();
          Abort();
        }
        progress_[static_cast<size_t>(r)].waits_in = INT_MAX;
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

  /// True once the rank has begun to wait for others, in any operation.
  bool waits(int rank) const { return progress_[static_cast<size_t>(rank)].waits_in >= 0; }

 private:
  struct alignas(16) Chunk {
    uint32_t words[4];
  };
  struct Progress {
    std::atomic<int> waits_in = -1;  // the operation whose flags this rank read last
    std::atomic<int> looks = 0;      // number of flag reads in that operation
  };

  template <class Body>
  void RunRank(int rank, int operations, const Schedule& schedule, Body body) {
    for (auto& arena : arenas_) Register(arena, &arena != &arenas_[static_cast<size_t>(rank)]);
    Register(controls_[static_cast<size_t>(rank)], false);
    Progress& mine = progress_[static_cast<size_t>(rank)];
    const bool held = schedule.rank == rank;
    int operation = 0;
    simt::BeforeAcquire() = [&] {
      const bool first = mine.waits_in.exchange(operation) != operation;
      ++mine.looks;
      if (first && held && schedule.hold == Schedule::Hold::kBeforeWaiting) AwaitOthers(rank, operation, false);
    };
    for (; operation < operations; ++operation) {
      if (held && schedule.hold == Schedule::Hold::kBeforeSending) AwaitOthers(rank, operation, true);
      mine.looks = 0;
      body(operation, Group(rank));
    }
    simt::BeforeAcquire() = nullptr;
  }

  /// Waits until all other ranks wait for flags of an operation after `operation`. With `looking_is_enough`, a rank
  /// that has read the flags of `operation` itself more than 20 times also counts. Then only the protocol stops the
  /// others from continuing.
  void AwaitOthers(int rank, int operation, bool looking_is_enough) {
    for (int r = 0; r < size_; ++r) {
      const Progress& other = progress_[static_cast<size_t>(r)];
      while (r != rank && !aborted() && other.waits_in <= operation &&
             !(looking_is_enough && other.waits_in == operation && other.looks > 20)) {
        std::this_thread::yield();
      }
    }
  }

  template <class T>
  static void Register(std::vector<T>& memory, bool remote) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    simt::RegisterGlobal({begin, begin + memory.size() * sizeof(T), remote});
  }

  int size_;
  int64_t capacity_;
  std::vector<std::vector<Chunk>> arenas_;
  std::vector<std::vector<uint32_t>> controls_;
  std::vector<Progress> progress_;
};

}  // namespace quire::kernels
