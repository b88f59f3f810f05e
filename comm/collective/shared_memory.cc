#include "comm/collective/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/add_parts.h"
#include "comm/collective/spin_wait.h"

namespace quire {

namespace {

std::shared_ptr<void> Map(int fd, size_t bytes, const std::string& name) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) Fail("shared memory {}: cannot map {} bytes: {}", name, bytes, std::strerror(errno));
  return {memory, [bytes](void* p) { ::munmap(p, bytes); }};
}

}  // namespace

SharedMemoryCollective::SharedMemoryCollective(SharedArena arena, Rank rank, std::shared_ptr<void> owner,
                                               int ranks_of_host)
    : arena_(arena), rank_(rank), owner_(std::move(owner)), crowded_(ranks_of_host > ::get_nprocs()) {}

void SharedMemoryCollective::Publish() {
  AwaitedCount& published = arena_.flag(rank_).published;
  if (crowded_) return published.RaiseAndWake(operation_ + 1);
  published.count.store(operation_ + 1, std::memory_order_release);
}

void SharedMemoryCollective::Await(Rank other) {
  AwaitedCount& published = arena_.flag(other).published;
  if (crowded_) return published.SleepUntilAbove(operation_, arena_.abort_word());
  SpinUntil([&] { return published.count.load(std::memory_order_acquire) > operation_; }, arena_.abort_word(), kSpins);
}

void SharedMemoryCollective::AllReduceAdd(std::span<const float> part, std::span<float> total) {
  constexpr size_t kPiece = SharedArena::kBufferBytes / sizeof(float);
  if (size() == 1)
    return AddParts(
        1, [&](Rank) { return part.data(); }, total);
  for (size_t begin = 0; begin < part.size(); begin += kPiece, ++operation_) {
    const size_t count = std::min(kPiece, part.size() - begin);
    std::memcpy(arena_.buffer(rank_, operation_), part.data() + begin, count * sizeof(float));
    Publish();
    for (Rank other = 0; other < size(); ++other) Await(other);
    AddParts(
        size(), [&](Rank rank) { return reinterpret_cast<const float*>(arena_.buffer(rank, operation_)); },
        total.subspan(begin, count));
  }
}

void SharedMemoryCollective::AllGather(std::span<const std::byte> in, std::span<const size_t> counts,
                                       std::span<std::byte> out) {
  QUIRE_CHECK(counts.size() == static_cast<size_t>(size()) && counts[static_cast<size_t>(rank_)] == in.size(),
              "{} bytes from rank {}", in.size(), rank_);
  const size_t longest = *std::max_element(counts.begin(), counts.end());
  for (size_t begin = 0; begin < longest; begin += SharedArena::kBufferBytes) {
    const auto piece_of = [&](size_t count) {
      return count <= begin ? 0 : std::min(SharedArena::kBufferBytes, count - begin);
    };
    if (const size_t bytes = piece_of(in.size()); bytes > 0) {
      std::memcpy(arena_.buffer(rank_, operation_), in.data() + begin, bytes);
    }
    Publish();
    size_t offset = 0;
    for (Rank other = 0; other < size(); offset += counts[static_cast<size_t>(other)], ++other) {
      Await(other);
      if (const size_t bytes = piece_of(counts[static_cast<size_t>(other)]); bytes > 0) {
        std::memcpy(out.data() + offset + begin, arena_.buffer(other, operation_), bytes);
      }
    }
    ++operation_;
  }
}

void SharedMemoryCollective::AllToAll(std::span<const std::byte> in, std::span<const size_t> sizes,
                                      std::span<std::byte> out) {
  const auto ranks = static_cast<size_t>(size()), self = static_cast<size_t>(rank_);
  QUIRE_CHECK(sizes.size() == ranks * ranks, "{} sizes for {} ranks", sizes.size(), ranks);
  // Returns where the bytes for rank `to` begin within the bytes that rank `from` has for all ranks.
  const auto begin_of = [&](size_t from, size_t to) {
    return std::accumulate(&sizes[from * ranks], &sizes[from * ranks] + to, size_t{0});
  };
  size_t longest = 0, filled = 0;
  for (size_t from = 0; from < ranks; ++from) longest = std::max(longest, begin_of(from, ranks));
  std::vector<size_t> place(ranks);  // offset in `out` of the bytes from each rank
  for (size_t from = 0; from < ranks; filled += sizes[from * ranks + self], ++from) place[from] = filled;
  QUIRE_CHECK(in.size() == begin_of(self, ranks) && out.size() == filled, "{} bytes, and room for {}", in.size(),
              out.size());
  if (const size_t own = sizes[self * ranks + self]; own > 0)
    std::memcpy(out.data() + place[self], in.data() + begin_of(self, self), own);
  for (size_t piece = 0; piece < longest; piece += SharedArena::kBufferBytes, ++operation_) {
    // Calls copy(offset in the part, offset in the piece, bytes) for the bytes that `from` has for `to` in this piece.
    const auto in_piece = [&](size_t from, size_t to, const auto& copy) {
      const size_t part = begin_of(from, to), part_end = part + sizes[from * ranks + to];
      const size_t begin = std::max(part, piece), end = std::min(part_end, piece + SharedArena::kBufferBytes);
      if (begin < end) copy(begin - part, begin - piece, end - begin);
    };
    for (size_t to = 0; to < ranks; ++to) {
      if (to == self) continue;
      in_piece(self, to, [&](size_t of_part, size_t of_piece, size_t bytes) {
        std::memcpy(arena_.buffer(rank_, operation_) + of_piece, in.data() + begin_of(self, to) + of_part, bytes);
      });
    }
    Publish();
    for (size_t from = 0; from < ranks; ++from) {
      if (from == self) continue;
      Await(static_cast<Rank>(from));
      in_piece(from, self, [&](size_t of_part, size_t of_piece, size_t bytes) {
        std::memcpy(out.data() + place[from] + of_part, arena_.buffer(static_cast<Rank>(from), operation_) + of_piece,
                    bytes);
      });
    }
  }
}

std::shared_ptr<void> CreateSharedMemory(const std::string& name, size_t bytes) {
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) Fail("shared memory {}: cannot create: {}", name, std::strerror(errno));
  // If /dev/shm is full, posix_fallocate returns an error. After ftruncate, the first access would raise SIGBUS
  // instead.
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    ::close(fd);
    ::shm_unlink(name.c_str());
    Fail("shared memory {}: cannot reserve {} bytes in /dev/shm: {}", name, bytes, std::strerror(error));
  }
  return Map(fd, bytes, name);
}

std::shared_ptr<void> OpenSharedMemory(const std::string& name, size_t bytes) {
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) Fail("shared memory {}: cannot open: {}", name, std::strerror(errno));
  return Map(fd, bytes, name);
}

std::shared_ptr<void> CreateArenaMemory(const std::string& name, int size) {
  return CreateSharedMemory(name, SharedArena::BytesFor(size));
}

std::shared_ptr<void> OpenArenaMemory(const std::string& name, int size) {
  return OpenSharedMemory(name, SharedArena::BytesFor(size));
}

void UnlinkArena(const std::string& name) { ::shm_unlink(name.c_str()); }

}  // namespace quire
