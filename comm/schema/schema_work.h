#pragma once

#include <cstdint>

namespace quire {

/// Bounds what schemas and their patterns cost on this thread while the object lives: a schema of a few hundred bytes
/// can ask for years of work. Work is counted and not timed, so that every rank comes to the same end. A unit is one
/// place of an automaton that is looked at, or one value of a schema that is read or copied, 10 to 100 ns. Inside
/// another SchemaWork the units come out of the outer one's rest.
class SchemaWork {
 public:
  explicit SchemaWork(int64_t units);
  ~SchemaWork();
  SchemaWork(const SchemaWork&) = delete;
  SchemaWork& operator=(const SchemaWork&) = delete;

  /// Units that were charged so far, up to the bound.
  int64_t spent() const { return given_ - left_; }

 private:
  friend void ChargeSchemaWork(int64_t units);

  SchemaWork* outer_;
  int64_t given_, left_;
};

/// Throws Error once the units of this thread are spent. Without a SchemaWork on this thread it does nothing.
void ChargeSchemaWork(int64_t units);

/// Units for all schemas of one request's field, some 0.2 s. One schema takes some ten thousand.
inline constexpr int64_t kSchemaWork = 5'000'000;

}  // namespace quire
