#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "comm/base/error.h"
#include "comm/collective/collective.h"

namespace quire {

/// A non-blocking NCCL communicator, so that a missing peer is an error and not a hang. In this mode NCCL starts a
/// thread for each call, and the call waits for that thread; a captured graph does so only once. After a failure the
/// communicator is aborted, so that its peers notice. Every later call throws CollectiveAborted with the first
/// failure's text: `who`, the call, NCCL's own error text and a remedy.
class NcclCommunicator {
 public:
  struct Options {
    std::string who;       // names the owner in errors
    std::string name;      // shown in NCCL's own messages
    int max_channels = 0;  // thread blocks that the communicator's kernels may use; 0: NCCL chooses
    std::chrono::milliseconds init_deadline = std::chrono::seconds(60);
    std::chrono::milliseconds call_deadline = std::chrono::seconds(30);  // time to queue one call, connecting included
    std::function<bool()> given_up = [] { return false; };               // polled during a wait for peers; true ends it
    std::function<void()> on_failure = [] {};                            // called once, from any thread
  };

  /// Creates the communicator on the calling thread's current device. Waits until all ranks have created theirs. Throws
  /// CollectiveAborted after init_deadline, when given_up returns true, or when NCCL fails.
  NcclCommunicator(const ncclUniqueId& id, int rank, int size, Options options);
  /// Finalizes the communicator. After a failure, or when finalizing takes too long, aborts it on a separate thread.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Queues a call and waits until NCCL has accepted it. `start` makes one NCCL call on the communicator; `what` names
  /// that call in errors.
  void Call(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& start);
  /// Returns the text of a new asynchronous error; empty when there is none or when a failure is already known.
  std::string Probe();
  void Check();
  /// Marks the communicator as failed and aborts it. Any thread may call it. It returns without waiting.
  void Fail(const std::string& why);
  /// Aborts the communicator and waits until NCCL has left the device.
  void AbortAndWait();

 private:
  void Settle(const std::string& what, ncclResult_t result, std::chrono::steady_clock::time_point deadline);

  const Options options_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once aborted
  std::string failure_;        // text of the first failure; empty while there is none
};

/// Returns the name and version of the NCCL library, for example "NCCL 2.28.9".
std::string NcclVersionText();

/// Returns a new id with which the ranks of a communicator find each other. On failure returns "" and sets `problem`.
std::string NewNcclId(std::string& problem);
ncclUniqueId NcclIdOf(const std::string& bytes);

}  // namespace quire
