#include "comm/schema/schema_work.h"

#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

/// The work that is counted on this thread; null: none is.
SchemaWork*& Current() {
  static thread_local SchemaWork* current = nullptr;
  return current;
}

}  // namespace

SchemaWork::SchemaWork(int64_t units) : left_(units), outer_(std::exchange(Current(), this)) {}
SchemaWork::~SchemaWork() { Current() = outer_; }

void ChargeSchemaWork(int64_t units) {
  SchemaWork* work = Current();
  if (work == nullptr) return;
  work->left_ -= units;
  if (work->left_ < 0) Fail("takes too much work: its patterns or alternatives unfold too far");
}

}  // namespace quire
