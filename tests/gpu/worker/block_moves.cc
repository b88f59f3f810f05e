// Moves KV blocks from device to device by real NCCL pairs, between two processes, and checks the bytes that arrive.
// With two GPUs, the moves are timed and compared with a plain send of as many bytes. With only one GPU, which both
// processes share, nothing is timed.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/nccl_collective.h"
#include "comm/collective/nccl_pair.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/device/pair_carrier.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBlockBytes = 2 << 20, kBlocks = 64;  // 1,024 tokens of an 8B model's keys and values in 16 bits
constexpr int kRounds = 4, kNoGpu = 3;

/// A channel for messages to the other process.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  void Say(const std::string& words) const {
    const auto size = static_cast<uint32_t>(words.size());
    if (::write(fd_, &size, sizeof(size)) != sizeof(size) ||
        ::write(fd_, words.data(), size) != static_cast<ssize_t>(size))
      Fail("the other process is gone");
  }
  std::string Hear() const {
    uint32_t size = 0;
    if (::recv(fd_, &size, sizeof(size), MSG_WAITALL) != sizeof(size)) Fail("the other process is gone");
    std::string words(size, '\0');
    if (::recv(fd_, words.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) Fail("the other process is gone");
    return words;
  }
  void Meet() const {
    Say("here");
    Hear();
  }

 private:
  int fd_;
};

struct Case {
  const char* name;
  BlockRuns given, taken;
};

/// Returns two cases: whole blocks; and half of the heads of the keys and values of 32 layers, into blocks that hold
/// only this half.
std::vector<Case> Cases() {
  Case halves{"half of the heads", {}, {}};
  constexpr int64_t kPart = kBlockBytes / 64;
  for (int64_t part = 0; part < 64; ++part) {
    halves.given.push_back({part * kPart + kPart / 2, kPart / 2});
    halves.taken.push_back({part * kPart / 2, kPart / 2});
  }
  return {{"whole blocks", {{0, kBlockBytes}}, {{0, kBlockBytes}}}, halves};
}

std::byte Pattern(int64_t i) { return static_cast<std::byte>((i * 2654435761) >> 13); }

/// One of the two processes, with its device and the blocks that move.
class Side {
 public:
  Side(int rank, Line line, int devices)
      : gives_(rank == 0),
        times_(devices > 1),
        line_(line),
        ordinal_(devices > 1 ? rank : 0),
        device_(ordinal_),
        pool_(device_.Allocate(kBlocks * kBlockBytes, "blocks")),
        host_(device_.AllocateHost(kBlocks * kBlockBytes, "what blocks hold")) {
    for (int64_t i = 0; i < host_.bytes(); ++i) host_.as()[i] = gives_ ? Pattern(i) : std::byte{0xee};
    device_.CopyToDevice(pool_.as(), host_.as(), host_.bytes());
    device_.Synchronize();
  }

  bool Run() {
    const double link = TimeLink();
    PairCarrier carrier(ordinal_, NcclPairing());
    const std::unique_ptr<DeviceLink> way = carrier.Open(Agree(carrier.NewMeeting()), gives_);
    bool right = true;
    for (const Case& each : Cases()) {
      const double seconds = Move(*way, each);
      right &= gives_ || IsRight(each);
      const auto bytes = static_cast<double>(BytesOf(each.given) * kBlocks);
      if (gives_ && times_)
        std::printf("%s: %.1f GB/s, %.0f %% of a plain send's %.1f\n", each.name, bytes / seconds * 1e-9,
                    100 * link * bytes / (kBlocks * kBlockBytes) / seconds, kBlocks * kBlockBytes / link * 1e-9);
    }
    return right;
  }

 private:
  /// At the sending end, sends `own`, its NCCL id, to the other end. Returns this id at both ends.
  std::string Agree(const std::string& own) const {
    if (!gives_) return line_.Hear();
    line_.Say(own);
    return own;
  }

  /// Returns the seconds of the fastest of kRounds plain sends of all bytes.
  double TimeLink() {
    const DevicePairing pairing = NcclPairing();
    const std::unique_ptr<DevicePair> pair = pairing.meet(Agree(pairing.new_meeting()), gives_, [] { return false; });
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      line_.Meet();
      const auto begin = Clock::now();
      void* const stream = device_.stream().handle;
      gives_ ? pair->Send(pool_.as(), pool_.bytes(), stream) : pair->Receive(pool_.as(), pool_.bytes(), stream);
      device_.Synchronize();
      pair->Check();
      line_.Meet();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    if (!gives_) device_.CopyToDevice(pool_.as(), host_.as(), host_.bytes());
    device_.Synchronize();
    return best;
  }

  /// Returns the seconds of the fastest of kRounds moves of all blocks, the work of the link's other end included.
  double Move(DeviceLink& way, const Case& each) {
    BlockMemory blocks;
    for (int64_t i = 0; i < kBlocks; ++i) {
      const int64_t block = gives_ ? i : kBlocks - 1 - i;
      blocks.emplace_back(pool_.as() + block * kBlockBytes, static_cast<size_t>(kBlockBytes));
    }
    double best = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      line_.Meet();
      const auto begin = Clock::now();
      way.Move(blocks, gives_ ? each.given : each.taken);
      ++moves_;
      while (way.num_done() < moves_) std::this_thread::yield();
      line_.Meet();
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  }

  bool IsRight(const Case& each) {
    device_.CopyToHost(host_.as(), pool_.as(), host_.bytes());
    device_.Synchronize();
    int64_t wrong = 0;
    for (int64_t block = 0; block < kBlocks; ++block) {
      for (size_t run = 0; run < each.taken.size(); ++run) {
        for (int64_t i = 0; i < each.taken[run].bytes; ++i) {
          const int64_t from = block * kBlockBytes + each.given[run].at + i;
          const int64_t to = (kBlocks - 1 - block) * kBlockBytes + each.taken[run].at + i;
          wrong += host_.as()[to] != Pattern(from);
        }
      }
    }
    std::printf("%s: %lld of %lld bytes are wrong\n", each.name, static_cast<long long>(wrong),
                static_cast<long long>(BytesOf(each.taken) * kBlocks));
    return wrong == 0;
  }

  const bool gives_, times_;
  const Line line_;
  const int ordinal_;
  Device device_;
  DeviceMemory pool_, host_;
  int64_t moves_ = 0;
};

int RunSide(int rank, int fd) {
  try {
    const DeviceCount devices = CountDevices();
    if (devices.count == 0) {
      if (rank == 0) std::printf("no GPU: nothing was run (%s)\n", devices.problem.c_str());
      return kNoGpu;
    }
    if (devices.count == 1) PrepareForSharedDevice(rank);
    return Side(rank, Line(fd), devices.count).Run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", rank == 0 ? "gives" : "takes", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace quire

int main() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 1;
  const pid_t child = ::fork();  // forks before any use of CUDA
  if (child == 0) {
    ::close(fds[0]);
    const int status = quire::RunSide(1, fds[1]);
    std::fflush(stdout);
    ::_exit(status);
  }
  ::close(fds[1]);
  const int gave = quire::RunSide(0, fds[0]);
  ::close(fds[0]);
  int took = 0;
  ::waitpid(child, &took, 0);
  const int taken = WIFEXITED(took) ? WEXITSTATUS(took) : 1;
  return gave != 0 ? gave : taken;
}
