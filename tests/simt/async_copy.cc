#include <cstring>

#include "simt/executor.h"

namespace quire::simt {

void Executor::StartCopy(int64_t offset, const void* bytes, size_t size, Where where) {
  Check(shared_.StartCopy(static_cast<size_t>(offset), size, Now(Access::kWrite), *this), where);
  CopyQueue::Copy copy{offset, size, {}};
  std::memcpy(copy.bytes, bytes, size);
  Running().copies.uncommitted.push_back(copy);
}

void Executor::CommitCopies() {
  CopyQueue& copies = Running().copies;
  copies.groups.push_back(std::move(copies.uncommitted));
  copies.uncommitted.clear();
}

void Executor::WaitForCopies(size_t pending, Where where) {
  std::deque<std::vector<CopyQueue::Copy>>& groups = Running().copies.groups;
  for (; groups.size() > pending; groups.pop_front()) {
    for (const CopyQueue::Copy& copy : groups.front()) {
      const auto at = static_cast<size_t>(copy.offset);
      shared_.EndCopy(at, copy.size);
      Check(shared_.Note(at, copy.size, Access::kWrite, Now(Access::kWrite), *this), where);
      std::memcpy(shared_.data() + copy.offset, copy.bytes, copy.size);
      Running().unshared_in = epoch_;
    }
  }
}

}  // namespace quire::simt
