#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quire {

/// Where records go in the end: RecordWriter, or what a test puts in its place. Called by one thread at a time.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void Append(uint8_t type, std::span<const std::byte> payload) = 0;
  /// Begins the next segment, also after an error, which is forgotten when that works.
  virtual void StartSegment() = 0;
  virtual void Flush() = 0;
  /// Why records are not taken; empty while they are.
  virtual const std::string& error() const = 0;
};

}  // namespace quire
