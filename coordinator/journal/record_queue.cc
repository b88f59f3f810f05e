#include "coordinator/journal/record_queue.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace quire {

namespace {

constexpr std::chrono::seconds kFarewell(5);

enum class Step : uint8_t { kRecord, kFlush, kStartSegment };

struct Item {
  Step step;
  uint8_t type = 0;
  std::vector<std::byte> payload = {};
};

}  // namespace

struct RecordQueue::State {
  State(std::unique_ptr<RecordSink> to, size_t bound) : sink(std::move(to)), max_bytes(bound) {}

  /// Adds an item. The queue's owner calls this function. `wakes`: also wakes the writing thread. Otherwise the thread
  /// may take the item only when a later item wakes the thread.
  void Put(Item item, bool wakes) {
    ++pending;
    waiting_bytes += item.payload.size();
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(item));
      awake = awake || wakes;
    }
    if (wakes) change.notify_all();
  }

  void Run() {
    std::unique_lock lock(mutex);
    for (bool last = false; !last;) {
      change.wait(lock, [this] { return awake || ending; });
      awake = false;
      last = ending;
      const std::deque<Item> batch = std::exchange(waiting, {});
      lock.unlock();
      for (const Item& item : batch) Execute(item);
      if (last) sink.reset();  // closes the files before the end is announced
      lock.lock();
    }
    ended = true;
    change.notify_all();
  }

  /// Executes an item. The writing thread calls this function.
  void Execute(const Item& item) {
    if (item.step == Step::kRecord) {
      sink->Append(item.type, item.payload);
      ++unflushed;
      if (!sink->error().empty()) num_lost += std::exchange(unflushed, 0);
    } else {
      sink->Flush();
      num_lost += sink->error().empty() ? 0 : unflushed;
      unflushed = 0;
      if (item.step == Step::kStartSegment) sink->StartSegment();
    }
    Report();
    waiting_bytes -= item.payload.size();
    --pending;
  }

  void Report() {
    const std::lock_guard lock(mutex);
    if (sink->error() == error) return;
    error = sink->error();
    takes = error.empty();
  }

  std::unique_ptr<RecordSink> sink;  // used by the writing thread only
  const size_t max_bytes;
  std::atomic<size_t> waiting_bytes{0}, pending{0};  // pending: items not executed yet
  std::atomic<uint64_t> num_lost{0};
  std::atomic<bool> takes{true};  // equals error.empty(); changes together with `error`
  uint64_t unflushed = 0;         // records that the sink may only have buffered; writing thread only
  mutable std::mutex mutex;       // guards the members below
  std::condition_variable change;
  std::deque<Item> waiting;
  bool awake = false, ending = false, ended = false;
  std::string error;
};

RecordQueue::RecordQueue(std::unique_ptr<RecordSink> sink, size_t max_bytes)
    : state_(std::make_shared<State>(std::move(sink), max_bytes)) {
  std::thread([state = state_] { state->Run(); }).detach();
}

RecordQueue::~RecordQueue() {
  Flush();
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->change.notify_all();
  if (!state_->change.wait_for(lock, kFarewell, [this] { return state_->ended; }))
    spdlog::warn("the step journal's last {} bytes did not get to the disk in {} s", state_->waiting_bytes.load(),
                 kFarewell.count());
}

bool RecordQueue::Append(uint8_t type, std::span<const std::byte> payload) {
  if (!state_->takes || state_->waiting_bytes + payload.size() > state_->max_bytes) {
    Lose();
    return false;
  }
  state_->Put({Step::kRecord, type, {payload.begin(), payload.end()}}, false);
  return true;
}

void RecordQueue::Lose() { ++state_->num_lost; }

void RecordQueue::AppendToNewSegment(uint8_t type, std::span<const std::byte> payload) {
  state_->Put({Step::kRecord, type, {payload.begin(), payload.end()}}, false);
}

void RecordQueue::StartSegment() { state_->Put({Step::kStartSegment}, true); }

void RecordQueue::Restart() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->error.clear();
    state_->takes = true;  // no item is in progress that could report an error
  }
  StartSegment();
}

void RecordQueue::Flush() { state_->Put({Step::kFlush}, true); }

bool RecordQueue::idle() const { return state_->pending == 0; }

size_t RecordQueue::waiting_bytes() const { return state_->waiting_bytes; }

size_t RecordQueue::max_bytes() const { return state_->max_bytes; }

uint64_t RecordQueue::num_lost() const { return state_->num_lost; }

std::string RecordQueue::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

}  // namespace quire
