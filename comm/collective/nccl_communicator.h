#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "comm/base/error.h"
#include "comm/collective/collective.h"

namespace quire {

/// An NCCL communicator that does not block: a peer that does not come is an error instead of a hang. The price: NCCL
/// starts a thread for each call, and the call waits for it; a captured graph pays once. After a failure it is given
/// up, by which the others learn of it, and every call throws CollectiveAborted with the first failure's text: who, the
/// call, NCCL's own words and a remedy.
class NcclCommunicator {
 public:
  struct Options {
    std::string who;       // in errors
    std::string name;      // in NCCL's own messages
    int max_channels = 0;  // thread blocks that its kernels may have; 0: NCCL's choice
    std::chrono::milliseconds init_deadline = std::chrono::seconds(60);
    std::chrono::milliseconds call_deadline = std::chrono::seconds(30);  // of queueing one call, connecting included
    std::function<bool()> given_up = [] { return false; };               // asked while it waits for peers
    std::function<void()> on_failure = [] {};                            // called once, from any thread
  };

  /// On the calling thread's current device; waits for all ranks.
  NcclCommunicator(const ncclUniqueId& id, int rank, int size, Options options);
  /// Ends it in good order if nothing has failed, else aside.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Queues a call and waits until NCCL has taken it. `start`: an NCCL call on the communicator.
  void Call(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& start);
  /// What has gone wrong asynchronously and was not known; empty: nothing.
  std::string Probe();
  void Check();
  /// From any thread; returns at once.
  void Fail(const std::string& why);
  /// Gives it up and waits until NCCL has left the device.
  void AbortAndWait();

 private:
  void Settle(const std::string& what, ncclResult_t result, std::chrono::steady_clock::time_point deadline);

  const Options options_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once given up
  std::string failure_;        // empty while all is well
};

/// "NCCL 2.28.9"
std::string NcclVersionText();

/// An id by which the ranks of a communicator find each other; empty when it cannot be had, for which see `problem`.
std::string NewNcclId(std::string& problem);
ncclUniqueId NcclIdOf(const std::string& bytes);

}  // namespace quire
