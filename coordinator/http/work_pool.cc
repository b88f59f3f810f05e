#include "coordinator/http/work_pool.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/give_way.h"
#include "comm/base/thread_time.h"

namespace quire {

namespace {

constexpr std::chrono::milliseconds kLeastPause(5), kLongestPause(250);  // pauses between checks of running jobs

thread_local std::chrono::nanoseconds charged_also{0};  // for the job that this thread runs

std::chrono::nanoseconds TimeOf(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

struct WorkPool::Job {
  std::string client;
  bool large = false;
  Work work;
  std::stop_source stop;
  clockid_t clock = 0;                // processor-time clock of the thread that runs the job
  std::chrono::nanoseconds begin{0};  // start of the job on `clock`
  bool too_long = false;
  enum class State { kWaits, kRuns, kOver } state = State::kWaits;
  Queue::iterator place;  // position in its client's queue while it waits, in running_ while it runs
};

WorkPool::WorkPool(Limits limits) : limits_(limits) {
  QUIRE_CHECK(limits_.threads >= 2 || (limits_.threads == 1 && limits_.large_bytes == SIZE_MAX), "{} threads",
              limits_.threads);
  for (int i = 0; i < limits_.threads; ++i) threads_.emplace_back([this] { RunJobs(); });
  if (limits_.job_time.count() > 0) watcher_ = std::thread([this] { WatchJobs(); });
}

WorkPool::JobPtr WorkPool::Add(const std::string& client, size_t bytes, Work work) {
  auto job = std::make_shared<Job>();
  job->client = client;
  job->large = bytes > limits_.large_bytes;
  job->work = std::move(work);
  {
    const std::lock_guard lock(mutex_);
    const auto known = queues_.find(client);
    const size_t of_client = known == queues_.end() ? 0 : known->second.size();
    if (stopped_ || num_waiting_ >= limits_.jobs || of_client >= limits_.jobs_per_client) return nullptr;
    if (of_client == 0) turns_.push_back(client);
    Queue& queue = queues_[client];
    job->place = queue.insert(queue.end(), job);
    ++num_waiting_;
  }
  changed_.notify_one();
  return job;
}

/// Removes a waiting job from its queue. The caller holds mutex_.
void WorkPool::Forget(const JobPtr& job) {
  const auto queue = queues_.find(job->client);
  queue->second.erase(job->place);
  --num_waiting_;
  if (!queue->second.empty()) return;
  turns_.remove(job->client);
  queues_.erase(queue);
}

bool WorkPool::Cancel(const JobPtr& job) {
  Work dropped;  // destroyed after the lock is released: it may hold megabytes
  const std::lock_guard lock(mutex_);
  job->stop.request_stop();
  if (job->state != Job::State::kWaits) return false;
  Forget(job);
  job->state = Job::State::kOver;
  dropped = std::move(job->work);
  return true;
}

/// Takes the first job of the next client that may begin a job; null when there is none. Lowers `rested` to the
/// earliest time at which a client that has used up its share may begin again. The caller holds mutex_.
WorkPool::JobPtr WorkPool::TakeNext(WorkShares::Clock::time_point& rested) {
  const bool spaced = bounds_clients();
  const auto now = WorkShares::Clock::now();
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const JobPtr job = queues_[*turn].front();
    if (job->large && num_large_ >= limits_.threads - 1) continue;
    if (const auto next = shares_.Next(*turn); spaced && next > now) {
      rested = std::min(rested, next);
      continue;
    }
    turns_.splice(turns_.end(), turns_, turn);
    Forget(job);
    job->state = Job::State::kRuns;
    job->place = running_.insert(running_.end(), job);
    num_large_ += job->large;
    return job;
  }
  return nullptr;
}

/// Waits for a job that may begin and returns it; null when the pool stops.
WorkPool::JobPtr WorkPool::AwaitNext(std::unique_lock<std::mutex>& lock) {
  while (!stopped_) {
    auto rested = WorkShares::Clock::time_point::max();
    if (JobPtr job = TakeNext(rested)) return job;
    if (rested == WorkShares::Clock::time_point::max())
      changed_.wait(lock);
    else
      changed_.wait_until(lock, rested);
  }
  return nullptr;
}

void WorkPool::EndComputing() {
  if (--num_computing_ > 0 || !limits_.beside_workers) return;
  // A thread that has seen the workers compute holds the mutex until it waits. So once this line has the mutex, that
  // thread waits, and the next line wakes it.
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

bool WorkPool::TookTooLong(const JobPtr& job) const {
  const std::lock_guard lock(mutex_);
  return job->too_long;
}

/// Asks jobs that have used up their time to stop. While a job is in running_ its thread lives, so the thread's clock
/// can be read.
void WorkPool::WatchJobs() {
  const auto every = std::clamp<std::chrono::milliseconds>(limits_.job_time / 10, kLeastPause, kLongestPause);
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (running_.empty()) {
      watch_.wait(lock);
      continue;
    }
    watch_.wait_for(lock, every);
    for (const JobPtr& job : running_) {
      if (job->too_long || TimeOf(job->clock) - job->begin < limits_.job_time) continue;
      job->too_long = true;
      job->stop.request_stop();
    }
  }
}

void WorkPool::ChargeAlso(std::chrono::nanoseconds time) { charged_also += time; }

void WorkPool::RunJobs() {
  GiveWayToWorkers();
  clockid_t clock = 0;
  QUIRE_CHECK(::pthread_getcpuclockid(::pthread_self(), &clock) == 0, "a thread without a clock");
  std::unique_lock lock(mutex_);
  while (const JobPtr job = AwaitNext(lock)) {
    const auto begin = ThreadTime();
    job->clock = clock;
    job->begin = begin;
    if (running_.size() == 1) watch_.notify_one();
    lock.unlock();
    job->work(job->stop.get_token());
    job->work = nullptr;
    const auto took = ThreadTime() - begin + std::exchange(charged_also, {});
    lock.lock();
    if (num_computing_ > 0) shares_.Charge(job->client, took, WorkShares::Clock::now());
    running_.erase(job->place);
    job->state = Job::State::kOver;
    num_large_ -= job->large;
    if (job->large) changed_.notify_one();  // a large job that was passed over may begin
  }
}

void WorkPool::Stop() {
  std::map<std::string, Queue> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const JobPtr& job : running_) job->stop.request_stop();
    for (const auto& [client, queue] : queues_) {
      for (const JobPtr& job : queue) job->state = Job::State::kOver;
    }
    dropped.swap(queues_);
    turns_.clear();
    num_waiting_ = 0;
  }
  changed_.notify_all();
  watch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (watcher_.joinable()) watcher_.join();
}

size_t WorkPool::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return num_waiting_;
}

}  // namespace quire
