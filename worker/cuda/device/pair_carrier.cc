#include "worker/cuda/device/pair_carrier.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "kernels/cuda/elementwise/pack_runs.h"
#include "worker/cuda/device/device.h"
#include "worker/cuda/device/upload_buffer.h"

namespace quire {

namespace {

using kernels::PackedRun;

constexpr int64_t kMostBlocks = 4096;  // blocks per piece
constexpr int64_t kMostRuns = 4096;    // runs per block
constexpr int kMark = 0;
constexpr auto kLook = std::chrono::microseconds(20);

struct GivenUp {};

/// The device resources of a link. The members are destroyed in reverse order, first the pair, because its kernels use
/// the other members.
struct Way {
  explicit Way(int ordinal)
      : device(ordinal),
        blocks(device, kMostBlocks, "addresses of KV blocks on their way"),
        runs(device, kMostRuns, "parts of KV blocks on their way") {}

  Device device;
  UploadBuffer<std::byte*> blocks;
  UploadBuffer<PackedRun> runs;
  DeviceMemory packed;
  std::unique_ptr<DevicePair> pair;
};

std::vector<PackedRun> PackedOf(const BlockRuns& runs) {
  std::vector<PackedRun> packed;
  int64_t at = 0;
  for (const BlockRun& run : runs) {
    packed.push_back({run.at, run.bytes, at});
    at += run.bytes;
  }
  return packed;
}

class PairLink final : public DeviceLink {
 public:
  PairLink(int device, const DevicePairing& pairing, int64_t piece_bytes, std::string meeting, bool gives)
      : device_(device),
        pairing_(pairing),
        piece_bytes_(piece_bytes),
        meeting_(std::move(meeting)),
        gives_(gives),
        thread_([this] { Run(); }) {}

  ~PairLink() override {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void Move(BlockMemory blocks, BlockRuns runs) override {
    {
      const std::lock_guard lock(mutex_);
      moves_.emplace_back(std::move(blocks), std::move(runs));
    }
    wake_.notify_one();
  }

  int64_t num_done() override {
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) Fail("{}", problem_);
    return num_done_;
  }

 private:
  using OneMove = std::pair<BlockMemory, BlockRuns>;

  void Run() {
    auto way = std::unique_ptr<Way>();
    try {
      way = std::make_unique<Way>(device_);
      way->pair = pairing_.meet(meeting_, gives_, [this] { return given_up(); });
      while (const std::optional<OneMove> move = NextMove()) {
        MoveAll(*way, move->first, move->second);
        const std::lock_guard lock(mutex_);
        ++num_done_;
      }
      return;
    } catch (const GivenUp&) {
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      problem_ = error.what();
    }
    // Queued work may still wait for the other end; this work ends when the pair is destroyed. Destroying the pair may
    // take long, so a separate thread does so.
    std::thread([way = std::move(way)]() mutable { way.reset(); }).detach();
  }

  bool given_up() {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  std::optional<OneMove> NextMove() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return given_up_ || !moves_.empty(); });
    if (given_up_) {
      if (!moves_.empty()) throw GivenUp();
      return std::nullopt;
    }
    OneMove move = std::move(moves_.front());
    moves_.pop_front();
    return move;
  }

  void MoveAll(Way& way, const BlockMemory& blocks, const BlockRuns& runs) {
    const int64_t of_block = BytesOf(runs), most = std::clamp(piece_bytes_ / of_block, int64_t{1}, kMostBlocks);
    if (static_cast<int64_t>(runs.size()) > kMostRuns) Fail("KV blocks that go in {} parts each", runs.size());
    if (way.packed.bytes() < std::max(piece_bytes_, of_block))
      way.packed = way.device.Allocate(std::max(piece_bytes_, of_block), "KV blocks on their way to other groups");
    const std::vector<PackedRun> packed = PackedOf(runs);
    kernels::PackRunsParams params{.blocks = nullptr,
                                   .runs = way.runs.Send(packed, 0),
                                   .packed = way.packed.as(),
                                   .num_blocks = 0,
                                   .num_runs = static_cast<int64_t>(packed.size()),
                                   .packed_bytes = of_block,
                                   .unpacks = !gives_};
    const auto total = static_cast<int64_t>(blocks.size());
    for (int64_t begin = 0; begin < total; begin += most) {
      std::vector<std::byte*> addresses;
      for (int64_t i = begin; i < std::min(total, begin + most); ++i)
        addresses.push_back(blocks[static_cast<size_t>(i)].data());
      params.num_blocks = static_cast<int64_t>(addresses.size());
      params.blocks = way.blocks.Send(addresses, 0);
      MovePiece(way, params);
      way.blocks.Reset(0);
    }
    way.runs.Reset(0);
  }

  /// Packs and sends a piece or, at the receiving end, receives and unpacks a piece. Unpacks into the blocks only after
  /// all bytes have arrived, because the blocks may have another use after a link is given up.
  void MovePiece(Way& way, const kernels::PackRunsParams& params) {
    const kernels::CudaStream stream = way.device.stream();
    const int64_t bytes = params.num_blocks * params.packed_bytes;
    if (gives_) {
      kernels::PackRuns(stream, params);
      way.pair->Send(params.packed, bytes, stream.handle);
      WaitFor(way);
    } else {
      way.pair->Receive(params.packed, bytes, stream.handle);
      WaitFor(way);
      kernels::PackRuns(stream, params);
      way.device.Synchronize();
    }
  }

  void WaitFor(Way& way) {
    way.device.SetMark(kMark);
    while (!way.device.Reached(kMark)) {
      way.pair->Check();
      if (given_up()) throw GivenUp();
      std::this_thread::sleep_for(kLook);
    }
    if (given_up()) throw GivenUp();
  }

  const int device_;
  const DevicePairing& pairing_;
  const int64_t piece_bytes_;
  const std::string meeting_;
  const bool gives_;
  std::mutex mutex_;  // guards the next five members
  std::condition_variable wake_;
  std::deque<OneMove> moves_;
  int64_t num_done_ = 0;
  std::string problem_;
  bool given_up_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<DeviceLink> PairCarrier::Open(const std::string& meeting, bool gives) {
  return std::make_unique<PairLink>(device_, pairing_, piece_bytes_, meeting, gives);
}

}  // namespace quire
