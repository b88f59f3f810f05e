#include <utility>

#include "simt/executor.h"

namespace quire::simt {

void Executor::QueueGroupMma(std::function<void()> multiply, Where where) {
  GroupMmas& mmas = Running().mmas;
  if (!mmas.begun) Fail("a product of a warpgroup without BeginGroupMmas", where);
  mmas.queued.push_back(std::move(multiply));
  mmas.places = mmas.places * 31 + where.line();
}

void Executor::WaitForGroupMmas() {
  GroupMmas& mmas = Running().mmas;
  for (const std::function<void()>& multiply : std::exchange(mmas.queued, {})) multiply();
  mmas.begun = false;
}

void Executor::ShareWithGroupMmas() {
  Thread& t = Running();
  t.shared_until = epoch_;
  t.unshared_in = 0;
}

const std::byte* Executor::SharedForGroup(int64_t offset, size_t size, Where where) {
  const std::byte* bytes = Shared(offset, size, Access::kRead, where);
  const size_t end = static_cast<size_t>(offset) + size;
  for (auto at = static_cast<size_t>(offset); at < end; at += shared_.Grain(at)) {
    const Stamp& write = shared_.LastWrite(at);
    const Thread& writer = *threads_[write.thread];
    if (writer.unshared_in == write.epoch || writer.shared_until < write.epoch)
      Fail("a warpgroup multiplies what thread " + std::to_string(write.thread) + " has written and not shared", where);
  }
  return bytes;
}

/// Called when a thread ends. Fails the launch when products of the thread are in flight, or when an ended thread of
/// its warpgroup has called warpgroup products at other source lines.
void Executor::CheckGroup(int thread) const {
  const Thread& t = *threads_[static_cast<size_t>(thread)];
  if (!t.mmas.queued.empty()) Fail("ends with products of its warpgroup in flight", Where::current());
  if (!group_mmas_) return;
  const int group = thread / 128 * 128;
  for (int other = group; other < group + 128 && other < num_threads_; ++other) {
    const Thread& o = *threads_[static_cast<size_t>(other)];
    if (o.state == State::kExited && o.mmas.places != t.mmas.places)
      Fail("its warpgroup has not multiplied together: thread " + std::to_string(other) + " did at other places",
           Where::current());
  }
}

}  // namespace quire::simt
