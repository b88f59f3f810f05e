#include <cstring>

#include "simt/executor.h"

namespace quire::simt {

void Executor::StartCopy(int64_t offset, const void* bytes, size_t size, Where where) {
  Thread& t = Running();
  Check(shared_.StartCopy(static_cast<size_t>(offset), size, Now(Access::kWrite), *this), where);
  Copy copy{offset, size, {}};
  std::memcpy(copy.bytes, bytes, size);
  t.uncommitted.push_back(copy);
}

void Executor::CommitCopies() {
  Thread& t = Running();
  t.groups.push_back(std::move(t.uncommitted));
  t.uncommitted.clear();
}

void Executor::WaitForCopies(size_t pending, Where where) {
  Thread& t = Running();
  for (; t.groups.size() > pending; t.groups.pop_front()) {
    for (const Copy& copy : t.groups.front()) {
      const auto at = static_cast<size_t>(copy.offset);
      shared_.EndCopy(at, copy.size);
      Check(shared_.Note(at, copy.size, Access::kWrite, Now(Access::kWrite), *this), where);
      std::memcpy(shared_.data() + copy.offset, copy.bytes, copy.size);
    }
  }
}

void Executor::CheckNoCopyInFlight(const Thread& thread) const {
  bool any = !thread.uncommitted.empty();
  for (const auto& group : thread.groups) any |= !group.empty();
  if (any) Fail("ends with copies in flight", Where::current());
}

}  // namespace quire::simt
