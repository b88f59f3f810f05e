#include "comm/collective/mpi_bootstrap.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "comm/collective/shared_memory.h"
#include "comm/error.h"

namespace quire {

namespace {

/// Between hosts: everything is gathered and every rank adds in rank order, so that the sums are bit-equal everywhere
/// (MPI_Allreduce leaves the order to the library).
class MpiCollective : public Collective {
 public:
  MpiCollective(Rank rank, int size) : rank_(rank), size_(size) {}

  Rank rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(std::span<float> data) override {
    parts_.resize(data.size() * static_cast<size_t>(size_));
    const int count = static_cast<int>(data.size());
    MPI_Allgather(data.data(), count, MPI_FLOAT, parts_.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
    std::copy_n(parts_.begin(), data.size(), data.begin());
    for (size_t other = 1; other < static_cast<size_t>(size_); ++other) {
      const float* part = parts_.data() + other * data.size();
      for (size_t i = 0; i < data.size(); ++i) data[i] += part[i];
    }
  }

  void AllGather(std::span<const std::byte> in, std::span<const size_t> counts, std::span<std::byte> out) override {
    std::vector<int> sizes(counts.begin(), counts.end()), offsets;
    int offset = 0;
    for (const int bytes : sizes) {
      offsets.push_back(offset);
      offset += bytes;
    }
    MPI_Allgatherv(in.data(), static_cast<int>(in.size()), MPI_BYTE, out.data(), sizes.data(), offsets.data(), MPI_BYTE,
                   MPI_COMM_WORLD);
  }

  void Abort() override {}  // a lost peer ends the whole MPI job; see comm/PROTOCOL.md

 private:
  Rank rank_;
  int size_;
  std::vector<float> parts_;
};

/// A name no other run uses.
std::string FreshName() {
  std::random_device entropy;
  return fmt::format("/quire.{:08x}{:08x}", entropy(), entropy());
}

}  // namespace

std::unique_ptr<Collective> MakeMpiCollective(Rank rank, int size) {
  return std::make_unique<MpiCollective>(rank, size);
}

MpiBootstrap::MpiBootstrap() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    Fail("MPI cannot be initialised with thread support");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  MPI_Comm_free(&host);
}

MpiBootstrap::~MpiBootstrap() { MPI_Finalize(); }

std::string MpiBootstrap::host_name() const {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::string MpiBootstrap::Broadcast(std::string bytes) const {
  uint64_t size = bytes.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  bytes.resize(size);
  MPI_Bcast(bytes.data(), static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD);
  return bytes;
}

std::vector<std::string> MpiBootstrap::GatherAll(const std::string& bytes) const {
  const int size = static_cast<int>(bytes.size());
  std::vector<int> sizes(static_cast<size_t>(world_size_)), offsets;
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (const int s : sizes) {
    offsets.push_back(total);
    total += s;
  }
  std::string all(static_cast<size_t>(total), '\0');
  MPI_Allgatherv(bytes.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE, MPI_COMM_WORLD);
  std::vector<std::string> parts;
  for (size_t r = 0; r < sizes.size(); ++r) {
    parts.push_back(all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(sizes[r])));
  }
  return parts;
}

void MpiBootstrap::Barrier() const { MPI_Barrier(MPI_COMM_WORLD); }

void MpiBootstrap::LibraryAllReduceSum(std::span<float> data) const {
  MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

std::unique_ptr<Collective> MpiBootstrap::MakeCollective() {
  int fewest = 0;
  MPI_Allreduce(&local_size_, &fewest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (fewest < world_size_) return MakeMpiCollective(rank_, world_size_);

  const std::string name = Broadcast(rank_ == 0 ? FreshName() : "");
  std::shared_ptr<void> memory;
  if (rank_ == 0) memory = CreateArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ != 0) memory = OpenArenaMemory(name, world_size_);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) UnlinkArena(name);
  return std::make_unique<SharedMemoryCollective>(SharedArena(memory.get(), world_size_), rank_, memory);
}

}  // namespace quire
