#include "comm/schema/schema_work.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the current work budget of this thread; null when there is none.
SchemaWork*& Current() {
  static thread_local SchemaWork* current = nullptr;
  return current;
}

}  // namespace

SchemaWork::SchemaWork(int64_t units)
    : outer_(std::exchange(Current(), this)),
      given_(outer_ == nullptr ? units : std::min(units, outer_->left_)),
      left_(given_) {}
SchemaWork::~SchemaWork() {
  Current() = outer_;
  if (outer_ != nullptr) outer_->left_ -= spent();
}

void ChargeSchemaWork(int64_t units) {
  SchemaWork* work = Current();
  if (work == nullptr) return;
  const bool enough = units <= work->left_;
  work->left_ = enough ? work->left_ - units : 0;
  if (!enough) Fail("takes too much work: its patterns or alternatives unfold too far");
}

}  // namespace quire
