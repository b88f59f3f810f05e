#pragma once

#include <atomic>
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
#include "coordinator/api/http/work_shares.h"

namespace quire {

/// Threads for what would hold up the I/O thread: work whose cost grows with what a client sent or is to get. Every
/// client has a queue, and queues take turns, so that nobody waits for more than one job of each other client. Large
/// jobs leave one thread to small ones. What waits is bounded, and is dropped when it is cancelled. While workers
/// compute on the same processors, clients have a small share of them (WorkShares).
class WorkPool {
 public:
  struct Limits {
    int threads = 2;  // at least 2 where jobs may be large: one for those, one that is soon free
    size_t jobs = 4096;
    size_t jobs_per_client = 1024;
    size_t large_bytes = 64 << 10;  // what makes a job a large one
    bool beside_workers = false;    // on processors that workers fill when they compute
  };
  /// Looks at the token every few milliseconds and ends early when it says so. Must not throw.
  using Work = std::function<void(const std::stop_token&)>;
  struct Job;  // waits, runs, or is over
  using JobPtr = std::shared_ptr<Job>;

  explicit WorkPool(Limits limits);
  ~WorkPool() { Stop(); }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// From any thread. bytes: that the work goes through. Null when too much waits already, or after Stop.
  JobPtr Add(const std::string& client, size_t bytes, Work work);
  /// From any thread. True: the job waited, and is dropped. False: it runs and was asked to stop, or is over.
  bool Cancel(const JobPtr& job);
  /// Drops what waits, asks what runs to stop, and waits for it.
  void Stop();

  size_t num_waiting() const;

  /// As long as one lives, workers compute.
  class Computing {
   public:
    explicit Computing(WorkPool& pool) : pool_(pool) { ++pool_.num_computing_; }
    ~Computing() { pool_.EndComputing(); }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

   private:
    WorkPool& pool_;
  };

 private:
  using Queue = std::list<JobPtr>;

  void RunJobs();
  JobPtr TakeNext(WorkShares::Clock::time_point& rested);
  JobPtr AwaitNext(std::unique_lock<std::mutex>& lock);
  void Forget(const JobPtr& job);
  void EndComputing();

  const Limits limits_;
  std::atomic<int> num_computing_{0};
  mutable std::mutex mutex_;  // guards all that follows but the threads
  std::condition_variable changed_;
  std::map<std::string, Queue> queues_;  // of clients with jobs that wait
  std::list<std::string> turns_;         // those clients; the first is next
  std::list<JobPtr> running_;
  size_t num_waiting_ = 0;
  int num_large_ = 0;  // running
  WorkShares shares_{static_cast<unsigned>(OwnProcessorRoom().count)};
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace quire
