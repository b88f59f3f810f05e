#include "simt/executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace quire::simt {

namespace {

std::string Place(Where where) {
  const char* slash = std::strrchr(where.file_name(), '/');
  return std::string(slash ? slash + 1 : where.file_name()) + ":" + std::to_string(where.line());
}

std::string Text(Dim3 d) {
  std::string text = "(";
  text.append(std::to_string(d.x)).append(", ").append(std::to_string(d.y)).append(", ");
  return text.append(std::to_string(d.z)).append(")");
}

Dim3 Unflatten(int64_t i, Dim3 size) { return {i % size.x, i / size.x % size.y, i / size.x / size.y}; }

}  // namespace

Options& CurrentOptions() {
  thread_local Options options;
  return options;
}

Executor& Executor::Make() {
  thread_local Executor executor;  // the fibers' stacks are used again in the next launch
  current_ = &executor;
  return executor;
}

void Executor::Fail(const std::string& what, Where where) const {
  throw SimtError(kernel_ + ", block " + Text(block_index) + ", thread " + Text(thread_index) + " at " + Place(where) +
                  ": " + what);
}

std::string Executor::Describe(int thread) const {
  const Thread& t = *threads_[static_cast<size_t>(thread)];
  const std::string name = "thread " + Text(IndexOf(thread));
  if (t.state == State::kExited) return name + " has left the kernel";
  return name + (t.state == State::kAtBarrier ? " waits at the barrier of " : " waits in the collective of ") +
         Place(t.where);
}

void Executor::FailUnwaited(const char* does, Where where) const {
  Fail(std::string(does) + " before it has waited for the kernels that came before", where);
}

bool Executor::Before(const Stamp& earlier) const {
  if (earlier.thread / 32 != running_ / 32) return false;
  return threads_[static_cast<size_t>(running_)]->clock[earlier.thread % 32] >= earlier.time;
}

void Executor::Run(const std::string& kernel, Dim3 grid_size, Dim3 block_size, size_t shared_bytes,
                   BlockOrder block_order, bool overlaps, Fiber::Body body, void* argument) {
  kernel_ = kernel, grid = grid_size, block = block_size, overlaps_ = overlaps, body_ = body, argument_ = argument;
  block_index = thread_index = {0, 0, 0};
  const int64_t threads = block.x * block.y * block.z, blocks = grid.x * grid.y * grid.z;
  const Options& options = CurrentOptions();
  if (threads < 1 || threads > 1024) Fail("a block of " + std::to_string(threads) + " threads", Where::current());
  if (blocks < 1 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
    Fail("a grid of " + Text(grid), Where::current());
  }
  if (shared_bytes > static_cast<size_t>(options.max_shared)) {
    Fail("wants " + std::to_string(shared_bytes) + " bytes of shared memory", Where::current());
  }
  num_threads_ = static_cast<int>(threads);
  while (threads_.size() < static_cast<size_t>(threads)) threads_.push_back(std::make_unique<Thread>());
  for (int i = 0; i < num_threads_; ++i) threads_[static_cast<size_t>(i)]->index = Unflatten(i, block);
  switch_chance_ = options.switch_chance;
  random_.seed(static_cast<unsigned>(options.seed));

  std::vector<int64_t> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  if (block_order == BlockOrder::kRandom) std::shuffle(order.begin(), order.end(), random_);
  BeginLaunch(blocks);
  for (const int64_t i : order) {
    block_index = Unflatten(i, grid);
    ++block_;
    shared_.Begin(shared_bytes, ++epoch_);
    RunBlock();
  }
  DeliverAll();
}

void Executor::ThreadMain(void* self) {
  Executor& executor = *static_cast<Executor*>(self);
  try {
    executor.body_(executor.argument_);
  } catch (...) {
    executor.error_ = std::current_exception();
  }
}

// Inlined into RunBlock, so that no call is unfinished when a thread goes on (fiber.h).
[[gnu::always_inline]] inline void Executor::Step(size_t ready_index) {
  running_ = ready_[ready_index];
  ready_[ready_index] = ready_.back();
  ready_.pop_back();
  thread_index = IndexOf(running_);
  Thread& t = *threads_[static_cast<size_t>(running_)];
  t.fiber.Resume();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (t.fiber.finished()) {
    if (t.copies.InFlight()) Fail("ends with copies in flight", Where::current());
    CheckGroup(running_);
    CheckWaited("ends", Where::current());
    t.state = State::kExited;
    ++exited_;
  }
}

void Executor::RunBlock() {
  at_barrier_ = exited_ = 0;
  group_mmas_ = false;
  std::fill(std::begin(in_collective_), std::end(in_collective_), 0);
  error_ = nullptr;
  ready_.resize(static_cast<size_t>(num_threads_));
  std::iota(ready_.begin(), ready_.end(), 0);
  for (const int i : ready_) {
    Thread& t = *threads_[static_cast<size_t>(i)];
    t.fiber.Start(&ThreadMain, this);
    t.state = State::kReady;
    std::fill(std::begin(t.clock), std::end(t.clock), 0);
    t.clock[i % 32] = 1;
    t.copies.Clear();
    t.mmas = {};
    t.shared_until = t.unshared_in = 0;
    t.waited = false;
  }
  while (exited_ < num_threads_) {
    if (ready_.empty()) FailStuck();
    Step(static_cast<uint32_t>(random_()) % static_cast<uint32_t>(ready_.size()));
    if (at_barrier_ > 0 && at_barrier_ + exited_ == num_threads_) ReleaseBarrier();
  }
}

void Executor::Wait(State state, Where where) {
  Thread& t = *threads_[static_cast<size_t>(running_)];
  t.state = state;
  t.where = where;
  if (state == State::kReady) ready_.push_back(running_);
  t.fiber.Yield();
}

void Executor::Barrier(Where where) {
  ++at_barrier_;
  Wait(State::kAtBarrier, where);
}

void Executor::ReleaseBarrier() {
  const Thread* first = nullptr;
  for (int i = 0; i < num_threads_; ++i) {
    Thread& t = *threads_[static_cast<size_t>(i)];
    if (t.state != State::kAtBarrier) continue;
    if (first == nullptr) first = &t;
    if (t.where.line() != first->where.line() || std::strcmp(t.where.file_name(), first->where.file_name()) != 0) {
      Fail("divergent barriers: " + Describe(i) + ", others at that of " + Place(first->where), t.where);
    }
    t.state = State::kReady;
    ready_.push_back(i);
  }
  at_barrier_ = 0;
  ++epoch_;
}

uint64_t Executor::Collect(Collective kind, uint32_t mask, uint64_t value, int source, Where where, Combine combine) {
  const int warp = running_ / 32, lanes = std::min(32, num_threads_ - warp * 32);
  if (!(mask >> lane() & 1)) Fail("a collective whose mask lacks the caller's own lane", where);
  if (lanes < 32 && mask >> lanes != 0) Fail("a collective whose mask names lanes that do not exist", where);
  if (!(mask >> source & 1)) Fail("shuffles from lane " + std::to_string(source) + ", which is not in the mask", where);
  Thread& t = *threads_[static_cast<size_t>(running_)];
  t.kind = kind, t.mask = mask, t.value = value, t.source = source, t.combine = combine, t.where = where;
  t.state = State::kInCollective;
  in_collective_[warp] |= 1u << lane();
  if ((in_collective_[warp] & mask) == mask) TryCollective(warp, mask);
  t.fiber.Yield();
  return t.result;
}

void Executor::Exchange(void* mine, Combine combine, Where where) {
  Collect(Collective::kExchange, 0xffffffff, reinterpret_cast<uintptr_t>(mine), lane(), where, combine);
}

bool Executor::MeetsIn(const Thread& a, const Thread& b) const {
  return a.state == State::kInCollective && a.kind == b.kind && a.mask == b.mask && a.combine == b.combine &&
         a.where.line() == b.where.line();
}

void Executor::TryCollective(int warp, uint32_t mask) {
  const Thread& caller = *threads_[static_cast<size_t>(running_)];
  uint32_t ballot = 0;
  void* brought[32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Thread& t = *threads_[static_cast<size_t>(warp * 32 + lane)];
    if (!MeetsIn(t, caller)) return;
    if (t.value != 0) ballot |= 1u << lane;
    brought[lane] = reinterpret_cast<void*>(t.value);
  }
  if (caller.kind == Collective::kExchange) caller.combine(brought);
  in_collective_[warp] &= ~mask;
  uint32_t clock[32] = {};
  for (int lane = 0; lane < 32 && caller.kind == Collective::kSyncWarp; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const Thread& t = *threads_[static_cast<size_t>(warp * 32 + lane)];
    for (int i = 0; i < 32; ++i) clock[i] = std::max(clock[i], t.clock[i]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    Thread& t = *threads_[static_cast<size_t>(warp * 32 + lane)];
    t.result = t.kind == Collective::kBallot ? ballot : threads_[static_cast<size_t>(warp * 32 + t.source)]->value;
    t.state = State::kReady;
    ready_.push_back(warp * 32 + lane);
    // Among the collectives, only the warp barrier orders memory (CUDA C++ Programming Guide, warp shuffles and votes:
    // "do not imply a memory barrier").
    if (t.kind != Collective::kSyncWarp) continue;
    std::copy(std::begin(clock), std::end(clock), t.clock);
    ++t.clock[lane];
  }
}

void Executor::FailStuck() const {
  // If a thread waits in a collective, the error names that thread and the missing lane. Otherwise the error names the
  // thread that ran last.
  for (int i = 0; i < num_threads_; ++i) {
    const Thread& t = *threads_[static_cast<size_t>(i)];
    if (t.state != State::kInCollective) continue;
    for (int lane = 0; lane < 32; ++lane) {
      const int other = i / 32 * 32 + lane;
      if (!(t.mask >> lane & 1) || other >= num_threads_) continue;
      const Thread& o = *threads_[static_cast<size_t>(other)];
      if (MeetsIn(o, t)) continue;
      Fail("stuck: " + Describe(i) + " for a lane that does not come: " + Describe(other), t.where);
    }
  }
  Fail("stuck: " + Describe(running_), threads_[static_cast<size_t>(running_)]->where);
}

std::byte* Executor::Shared(int64_t offset, size_t size, Access access, Where where) {
  if (switch_chance_ > 0 && static_cast<double>(random_()) < switch_chance_ * static_cast<double>(random_.max())) {
    Wait(State::kReady, where);
  }
  Check(shared_.Note(static_cast<size_t>(offset), size, access, Now(access), *this), where);
  if (access != Access::kRead) Running().unshared_in = epoch_;
  return shared_.data() + offset;
}

void Executor::Check(const SharedMemory::Fault& fault, Where where) const {
  if (fault.what == nullptr) return;
  const bool other = fault.other.epoch != 0;
  Fail(std::string(fault.what) + (other ? ": thread " + Text(IndexOf(fault.other.thread)) : ""), where);
}

}  // namespace quire::simt
