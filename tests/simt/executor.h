#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "simt/copy_queue.h"
#include "simt/fiber.h"
#include "simt/global_memory.h"
#include "simt/shared_memory.h"

namespace quire::simt {

using Where = std::source_location;

struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
};

/// Reports an error of a kernel. The text names the kernel, block, thread, file and line.
struct SimtError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Configures the launches of the calling thread.
struct Options {
  uint64_t seed = 1;            // decides the order of blocks and threads
  double switch_chance = 0;     // probability that a thread yields at an access to shared memory
  int64_t max_shared = 232448;  // bytes per block: 227 KiB, the most that Hopper grants
};
Options& CurrentOptions();

enum class Collective { kSyncWarp, kShuffle, kBallot, kExchange };

/// Runs a launch, one block after another. Within a block it runs one thread at a time, until that thread waits for
/// others.
class Executor final : private Order {
 public:
  static Executor& Current() { return current_ != nullptr ? *current_ : Make(); }  // the calling thread's executor

  enum class BlockOrder { kRandom, kAscending };
  /// Runs a launch and returns when it has ended. With `overlaps`, threads must wait for the preceding kernels
  /// (prerequisites) before they write global memory, read what a kernel wrote, or end.
  void Run(const std::string& kernel, Dim3 grid, Dim3 block, size_t shared_bytes, BlockOrder order, bool overlaps,
           Fiber::Body body, void* argument);

  // The functions below act for the running thread.
  Dim3 grid, block, block_index, thread_index;
  void Barrier(Where where);
  /// Waits for the lanes of `mask`. Shuffles return the value of lane `source`. Ballots return a bit for each lane
  /// whose value is not 0.
  using Combine = void (*)(void* const (&lanes)[32]);
  uint64_t Collect(Collective kind, uint32_t mask, uint64_t value, int source, Where where, Combine combine = nullptr);
  /// Performs a collective of all 32 lanes. When all have arrived, `combine` is called with the values of all.
  void Exchange(void* mine, Combine combine, Where where);
  /// StartCopy begins a copy to shared memory, while the thread continues. WaitForCopies waits for all but the last
  /// `pending` groups of the thread's copies.
  void StartCopy(int64_t offset, const void* bytes, size_t size, Where where);
  void CommitCopies();
  void WaitForCopies(size_t pending, Where where);
  /// Begins products of a warpgroup, which are computed when the thread waits for them (group_mma.cuh).
  void BeginGroupMmas() { Running().mmas.begun = group_mmas_ = true; }
  void QueueGroupMma(std::function<void()> multiply, Where where);
  void WaitForGroupMmas();
  /// Makes the thread's earlier writes visible to products of warpgroups, from the next barrier on. Without this call
  /// the writes stay invisible.
  void ShareWithGroupMmas();
  /// Checks bytes that a product of a warpgroup reads, and returns them.
  const std::byte* SharedForGroup(int64_t offset, size_t size, Where where);
  void WaitForPrerequisites() { Running().waited = true; }
  void CheckWaited(const char* does, Where where) const {
    if (overlaps_ && !threads_[static_cast<size_t>(running_)]->waited) FailUnwaited(does, where);
  }
  /// Checks and notes an access to shared memory, and returns its bytes.
  std::byte* Shared(int64_t offset, size_t size, Access access, Where where);
  /// Notes an access to bytes of an allocation. Fails if another block of the launch wrote the bytes last, unless both
  /// accesses are atomic, because nothing orders the blocks of a launch.
  void NoteGlobal(Range& range, const std::byte* at, size_t size, Access access, Where where);
  /// Holds a write to another device's memory back until Release, or until the launch ends.
  void WriteLate(std::byte* to, const void* bytes, size_t size);
  /// Delivers the late writes that come before a release by the running thread: the thread's own writes, and writes
  /// that barriers order before it.
  void Release();
  size_t shared_bytes() const { return shared_.size(); }
  int lane() const { return running_ % 32; }
  [[noreturn]] void Fail(const std::string& what, Where where) const;

 private:
  enum class State { kReady, kAtBarrier, kInCollective, kExited };
  struct GroupMmas {
    bool begun = false;
    std::vector<std::function<void()>> queued;
    uint64_t places = 0;  // a hash of all calls until now
  };
  struct Thread {
    Fiber fiber;
    Dim3 index;
    State state = State::kExited;
    Where where;
    Collective kind{};
    uint32_t mask = 0;
    uint64_t value = 0, result = 0;
    int source = 0;
    Combine combine = nullptr;
    CopyQueue copies;
    GroupMmas mmas;
    uint32_t shared_until = 0, unshared_in = 0;  // epochs of the last ShareWithGroupMmas, and of the last later write
    bool waited = false;                         // WaitForPrerequisites was called
    uint32_t clock[32] = {};                     // number of earlier warp barriers, for each lane of the thread's warp
  };

  struct LateWrite {
    std::byte* to;
    std::byte bytes[16];
    size_t size;
    Stamp stamp;
    uint32_t block;
  };

  static Executor& Make();
  void BeginLaunch(int64_t blocks);
  void DeliverAll();
  bool Before(const Stamp& earlier) const override;
  static void ThreadMain(void* self);
  Thread& Running() { return *threads_[static_cast<size_t>(running_)]; }
  Stamp Now(Access access) {
    return {epoch_, Running().clock[lane()], static_cast<uint16_t>(running_), access == Access::kAtomic};
  }
  void Check(const SharedMemory::Fault& fault, Where where) const;
  [[noreturn]] void FailUnwaited(const char* does, Where where) const;
  void RunBlock();
  void Step(size_t ready_index);
  void ReleaseBarrier();
  void CheckGroup(int thread) const;
  bool MeetsIn(const Thread& a, const Thread& b) const;
  void TryCollective(int warp, uint32_t mask);
  [[noreturn]] void FailStuck() const;
  std::string Describe(int thread) const;
  Dim3 IndexOf(int thread) const { return threads_[static_cast<size_t>(thread)]->index; }
  void Wait(State state, Where where);

  std::string kernel_;
  Fiber::Body body_ = nullptr;
  void* argument_ = nullptr;
  bool overlaps_ = false;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<int> ready_;
  uint32_t in_collective_[32] = {};  // per warp: the lanes that wait in a collective
  int num_threads_ = 0, at_barrier_ = 0, exited_ = 0, running_ = 0;
  uint32_t epoch_ = 0;
  uint32_t first_block_ = 0, block_ = 0;  // numbers of the launch's first block and of the running one (Writers)
  std::vector<LateWrite> late_;
  bool group_mmas_ = false;  // a thread of the running block has begun products of its warpgroup
  double switch_chance_ = 0;
  SharedMemory shared_;
  std::minstd_rand random_;
  static inline constinit thread_local Executor* current_ = nullptr;
};

}  // namespace quire::simt
