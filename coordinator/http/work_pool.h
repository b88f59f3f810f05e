#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "comm/base/host_limits.h"
#include "coordinator/http/work_shares.h"

namespace quire {

/// Threads for work that would hold up the I/O thread because its cost grows with a request or an answer. Each client
/// has a queue, and clients take turns: at its turn, a client begins one job. Large jobs leave one thread free for
/// small jobs. The number of waiting jobs is bounded. While workers compute on the same processors, clients get only a
/// small share of the processors (WorkShares).
class WorkPool {
 public:
  struct Limits {
    int threads = 2;  // at least 2 where jobs may be large, because one thread stays free for small jobs
    size_t jobs = 4096;
    size_t jobs_per_client = 1024;
    size_t large_bytes = 64 << 10;  // a job of more bytes is large
    bool beside_workers = false;    // the pool shares its processors with workers
    std::chrono::milliseconds at_once = WorkShares::kAtOnce;  // processor time of a client without a pause (WorkShares)
    // The most processor time of one job, which is then asked to stop; 0: no limit. Every kind of work has a lower
    // limit of its own; job_time is for work in which this limit fails.
    std::chrono::milliseconds job_time{20'000};
  };
  /// The work of a job. The work must check the token every few milliseconds, end soon after a stop, and never throw.
  using Work = std::function<void(const std::stop_token&)>;
  struct Job;  // waits, runs, or is over
  using JobPtr = std::shared_ptr<Job>;

  explicit WorkPool(Limits limits);
  ~WorkPool() { Stop(); }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Queues a job for `bytes` bytes. Returns null when too many jobs wait or the pool stopped. Any thread may call it.
  JobPtr Add(const std::string& client, size_t bytes, Work work);
  /// Drops a waiting job and returns true, or asks a running job to stop. Any thread may call it.
  bool Cancel(const JobPtr& job);
  /// Charges the running job's client with another process's processor time. The job's work calls this function.
  static void ChargeAlso(std::chrono::nanoseconds time);
  /// True when the job was asked to stop because it took Limits::job_time. Any thread may call it.
  bool TookTooLong(const JobPtr& job) const;
  /// Drops waiting jobs, asks running jobs to stop, and waits for them.
  void Stop();

  size_t num_waiting() const;
  /// True while clients get only their shares of the processors (WorkShares). Any thread may call it.
  bool bounds_clients() const { return limits_.beside_workers && num_computing_ > 0; }

  /// While an object of this class lives, the workers count as computing.
  class Computing {
   public:
    explicit Computing(WorkPool& pool) : pool_(pool) { ++pool_.num_computing_; }
    ~Computing() { pool_.EndComputing(); }
    Computing(const Computing&) = delete;

   private:
    WorkPool& pool_;
  };

 private:
  using Queue = std::list<JobPtr>;

  void RunJobs();
  void WatchJobs();
  JobPtr TakeNext(WorkShares::Clock::time_point& rested);
  JobPtr AwaitNext(std::unique_lock<std::mutex>& lock);
  void Forget(const JobPtr& job);
  void EndComputing();

  const Limits limits_;
  std::atomic<int> num_computing_{0};
  mutable std::mutex mutex_;  // guards the members below, except threads and condition variables
  std::condition_variable changed_;
  std::map<std::string, Queue> queues_;  // client -> its waiting jobs
  std::list<std::string> turns_;         // clients with waiting jobs, the next one first
  std::list<JobPtr> running_;
  size_t num_waiting_ = 0;
  int num_large_ = 0;  // large jobs that run
  WorkShares shares_{static_cast<unsigned>(OwnProcessorRoom().count), limits_.at_once};
  bool stopped_ = false;
  std::vector<std::thread> threads_;
  std::condition_variable watch_;  // wakes watcher_: a job began where none ran, or the pool stops
  std::thread watcher_;            // checks the time of running jobs; no thread without a limit
};

}  // namespace quire
