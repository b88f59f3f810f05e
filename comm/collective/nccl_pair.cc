#include "comm/collective/nccl_pair.h"

#include <utility>

#include "comm/collective/nccl_communicator.h"

namespace quire {

namespace {

/// The most thread blocks that NCCL uses for a transfer. Each block occupies a multiprocessor. A device has a hundred
/// multiprocessors or more, and the free ones compute steps at the same time.
constexpr int kMaxChannels = 8;

class NcclPair final : public DevicePair {
 public:
  NcclPair(const std::string& meeting, bool gives, std::function<bool()> given_up)
      : peer_(gives ? 1 : 0),
        communicator_(NcclIdOf(meeting), gives ? 0 : 1, 2,
                      {.who = fmt::format("KV blocks from device to device ({})", NcclVersionText()),
                       .name = "quire-blocks",
                       .max_channels = kMaxChannels,
                       .given_up = std::move(given_up)}) {}
  ~NcclPair() override { communicator_.AbortAndWait(); }

  void Send(const void* data, int64_t bytes, void* stream) override {
    communicator_.Call(fmt::format("ncclSend of {} bytes", bytes), [&](ncclComm_t comm) {
      return ncclSend(data, static_cast<size_t>(bytes), ncclInt8, peer_, comm, static_cast<cudaStream_t>(stream));
    });
  }
  void Receive(void* data, int64_t bytes, void* stream) override {
    communicator_.Call(fmt::format("ncclRecv of {} bytes", bytes), [&](ncclComm_t comm) {
      return ncclRecv(data, static_cast<size_t>(bytes), ncclInt8, peer_, comm, static_cast<cudaStream_t>(stream));
    });
  }
  void Check() override {
    const std::string problem = communicator_.Probe();
    if (!problem.empty()) communicator_.Fail(problem);
    communicator_.Check();
  }

 private:
  const int peer_;
  NcclCommunicator communicator_;
};

}  // namespace

DevicePairing NcclPairing() {
  return {.new_meeting =
              [] {
                std::string problem;
                std::string id = NewNcclId(problem);
                if (id.empty()) Fail("{}", problem);
                return id;
              },
          .meet =
              [](const std::string& meeting, bool gives, std::function<bool()> given_up) {
                return std::make_unique<NcclPair>(meeting, gives, std::move(given_up));
              }};
}

}  // namespace quire
