#include "comm/collective/shared_stage_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "comm/collective/collective.h"

namespace quire {

namespace {

constexpr size_t kRing = StageArena::kRingBytes;

/// Waits until count() returns more than 0, and returns that number. Throws CollectiveAborted once the abort flag is
/// set.
template <class Count>
size_t Await(const Count& count, const std::atomic<uint64_t>& abort_word) {
  StagePatience patience;
  for (;;) {
    if (const size_t found = count(); found > 0) return found;
    if (abort_word.load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
    patience.Pause();
  }
}

/// Calls copy(offset in the message, offset in the ring, bytes) for the ring's bytes [begin, begin + count). The ring
/// continues at its first byte after its last one.
template <class Copy>
void InRing(uint64_t begin, size_t count, const Copy& copy) {
  const size_t at = begin % kRing, first = std::min(count, kRing - at);
  copy(0, at, first);
  if (count > first) copy(first, 0, count - first);
}

}  // namespace

StageArena::Ring& StageArena::ring(int from, int to) const {
  const bool next = to == from + 1, back = from == num_stages_ - 1 && to >= 0 && to < from;
  QUIRE_CHECK((next && to < num_stages_) || back, "no bytes go from stage {} to {} of {}", from, to, num_stages_);
  const int index = next ? from : num_stages_ - 1 + to;
  return reinterpret_cast<Ring*>(memory_ + sizeof(Flag))[index];
}

SharedStageLink::SharedStageLink(StageArena arena, int stage, std::shared_ptr<void> owner)
    : arena_(arena), stage_(stage), owner_(std::move(owner)) {}

void SharedStageLink::Send(int to, std::span<const std::byte> bytes) {
  StageArena::Ring& ring = arena_.ring(stage_, to);
  for (uint64_t written = ring.written.load(std::memory_order_relaxed); !bytes.empty();) {
    const size_t room =
        Await([&] { return kRing - (written - ring.taken.load(std::memory_order_acquire)); }, arena_.abort_word());
    const size_t count = std::min(room, bytes.size());
    InRing(written, count,
           [&](size_t from, size_t at, size_t size) { std::memcpy(ring.bytes + at, bytes.data() + from, size); });
    ring.written.store(written += count, std::memory_order_release);
    bytes = bytes.subspan(count);
  }
}

bool SharedStageLink::HasBytes(int from) {
  const StageArena::Ring& ring = arena_.ring(from, stage_);
  if (ring.written.load(std::memory_order_acquire) != ring.taken.load(std::memory_order_relaxed)) return true;
  if (arena_.abort_word().load(std::memory_order_acquire) != 0) throw CollectiveAborted("another rank is gone");
  return false;
}

void SharedStageLink::Receive(int from, std::span<std::byte> bytes) {
  StageArena::Ring& ring = arena_.ring(from, stage_);
  for (uint64_t taken = ring.taken.load(std::memory_order_relaxed); !bytes.empty();) {
    const size_t there =
        Await([&] { return ring.written.load(std::memory_order_acquire) - taken; }, arena_.abort_word());
    const size_t count = std::min(there, bytes.size());
    InRing(taken, count,
           [&](size_t to, size_t at, size_t size) { std::memcpy(bytes.data() + to, ring.bytes + at, size); });
    ring.taken.store(taken += count, std::memory_order_release);
    bytes = bytes.subspan(count);
  }
}

}  // namespace quire
