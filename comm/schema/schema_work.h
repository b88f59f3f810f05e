#pragma once

#include <cstdint>

namespace quire {

/// Bounds what schemas and their patterns cost on this thread while the object lives: a schema of a few hundred bytes
/// can ask for years of work. Work is counted and not timed, so that every rank comes to the same end. A unit is one
/// place of an automaton that is looked at, or one part of a schema that is read, 10 to 100 ns.
class SchemaWork {
 public:
  explicit SchemaWork(int64_t units);
  ~SchemaWork();
  SchemaWork(const SchemaWork&) = delete;
  SchemaWork& operator=(const SchemaWork&) = delete;

 private:
  friend void ChargeSchemaWork(int64_t units);

  int64_t left_;
  SchemaWork* outer_;
};

/// Throws Error once the units of this thread are spent. Without a SchemaWork on this thread it does nothing.
void ChargeSchemaWork(int64_t units);

/// Units for one schema, some 0.2 s. Schemas of requests take some ten thousand.
inline constexpr int64_t kSchemaWork = 5'000'000;

}  // namespace quire
