#include "comm/collective/nccl_communicator.h"

#include <cstring>
#include <thread>
#include <utility>

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFinalizeDeadline = std::chrono::seconds(5);

/// Returns a remedy for an NCCL error. `words` is NCCL's own text of the error. If the kind of error suggests no
/// remedy, returns the setting with which NCCL prints more.
std::string Remedy(ncclResult_t result, const std::string& words) {
  if (words.find("Duplicate GPU") != words.npos) {
    return "give every rank a GPU of its own (CUDA_VISIBLE_DEVICES, fewer ranks per host)";
  }
  switch (result) {
    case ncclUnhandledCudaError:
      return "a CUDA call failed, perhaps because of an earlier kernel; is the driver (nvidia-smi) new enough for this "
             "CUDA?";
    case ncclSystemError:
      return "a system call failed: is /dev/shm large enough (docker run --shm-size=1g), does NCCL_SOCKET_IFNAME name "
             "an interface that all hosts reach each other by? NCCL_DEBUG=WARN says more";
    case ncclRemoteError:
      return "a peer ended or its link broke: look at what the other ranks said first";
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return "is NCCL the same version on all hosts? NCCL_DEBUG=WARN says more";
    case ncclInProgress:
      return "a peer did not come: is a firewall between the hosts, does NCCL_SOCKET_IFNAME name the right interface?";
    default:
      return "NCCL_DEBUG=WARN says more";
  }
}

std::string Words(const std::string& what, ncclResult_t result) {
  const char* last = ncclGetLastError(nullptr);
  const std::string words = last != nullptr ? last : "";
  return fmt::format("{}: {}{}{}; {}", what,
                     result == ncclInProgress ? "no answer in time" : ncclGetErrorString(result),
                     words.empty() ? "" : ": ", words, Remedy(result, words));
}

/// Aborts on a detached thread, because ncclCommAbort may wait for peers or kernels. The thread ends with the process
/// at the latest.
void AbortAside(ncclComm_t comm) {
  std::thread([comm] { ncclCommAbort(comm); }).detach();
}

}  // namespace

std::string NcclVersionText() {
  int version = 0;
  ncclGetVersion(&version);  // encoded: 2.28.9 is 22809
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string NewNcclId(std::string& problem) {
  ncclUniqueId id{};
  if (ncclGetUniqueId(&id) == ncclSuccess) return {id.internal, sizeof(id.internal)};
  problem = fmt::format("ncclGetUniqueId failed: {}; does NCCL_SOCKET_IFNAME name an interface of this host?",
                        ncclGetLastError(nullptr));
  return "";
}

ncclUniqueId NcclIdOf(const std::string& bytes) {
  ncclUniqueId id{};
  if (bytes.size() != sizeof(id.internal)) Fail("an NCCL id of {} bytes", bytes.size());
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  return id;
}

NcclCommunicator::NcclCommunicator(const ncclUniqueId& id, int rank, int size, Options options)
    : options_(std::move(options)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = options_.name.c_str();
  if (options_.max_channels > 0) config.maxCTAs = options_.max_channels;
  Settle("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, size, id, rank, &config),
         Clock::now() + options_.init_deadline);
}

NcclCommunicator::~NcclCommunicator() {
  ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  ncclResult_t result = ncclCommFinalize(comm);
  for (const auto deadline = Clock::now() + kFinalizeDeadline; result == ncclInProgress && Clock::now() < deadline;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ncclCommGetAsyncError(comm, &result) != ncclSuccess) break;
  }
  if (result == ncclSuccess) {
    ncclCommDestroy(comm);
  } else {
    AbortAside(comm);
  }
}

void NcclCommunicator::Call(const std::string& what, const std::function<ncclResult_t(ncclComm_t)>& start) {
  ncclResult_t result;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CollectiveAborted(failure_);
    result = start(comm_);
  }
  Settle(what, result, Clock::now() + options_.call_deadline);
}

/// Waits while NCCL answers "in progress". Throws CollectiveAborted when the call `what` fails, when the deadline
/// passes, or when the owner gives up. Releases the mutex between two polls, so that other threads can use the
/// communicator.
void NcclCommunicator::Settle(const std::string& what, ncclResult_t result, Clock::time_point deadline) {
  while (result == ncclInProgress && Clock::now() < deadline && !options_.given_up()) {
    std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CollectiveAborted(failure_);
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return;
  Fail(Words(what, result));
  const std::lock_guard lock(mutex_);
  throw CollectiveAborted(failure_);
}

std::string NcclCommunicator::Probe() {
  const std::lock_guard lock(mutex_);
  ncclResult_t result = ncclSuccess;
  if (!failure_.empty()) return "";
  if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
  return result == ncclSuccess || result == ncclInProgress ? "" : Words("asynchronous error", result);
}

void NcclCommunicator::Check() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CollectiveAborted(failure_);
}

void NcclCommunicator::Fail(const std::string& why) {
  bool first = false;
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    first = failure_.empty();
    if (first) failure_ = options_.who + ": " + why;
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) AbortAside(comm);
  if (first) options_.on_failure();
}

void NcclCommunicator::AbortAndWait() {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = options_.who + ": given up";
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) ncclCommAbort(comm);
}

}  // namespace quire
