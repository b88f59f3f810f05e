#pragma once

#include <cstdint>

namespace quire {

/// Bounds the work on schemas and patterns on this thread while the object lives: a schema of a few hundred bytes can
/// ask for years of work. Work is counted and not timed, so that every rank stops at the same point. A unit is one
/// automaton state that is examined, or one schema value that is read or copied: 10 to 100 ns. A nested SchemaWork
/// takes its units from those that the outer SchemaWork has left.
class SchemaWork {
 public:
  explicit SchemaWork(int64_t units);
  ~SchemaWork();
  SchemaWork(const SchemaWork&) = delete;
  SchemaWork& operator=(const SchemaWork&) = delete;

  /// Returns the units charged until now, at most the bound.
  int64_t spent() const { return given_ - left_; }

 private:
  friend void ChargeSchemaWork(int64_t units);

  SchemaWork* outer_;
  int64_t given_, left_;
};

/// Takes `units` from this thread's innermost SchemaWork. Throws Error when fewer units are left. Does nothing on a
/// thread without a SchemaWork.
void ChargeSchemaWork(int64_t units);

/// The units for all schemas of one request field, some 0.2 s. A typical schema takes some ten thousand units.
inline constexpr int64_t kSchemaWork = 5'000'000;

}  // namespace quire
