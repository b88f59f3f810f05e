#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quire {

/// The destination of records: RecordWriter, or a substitute in tests. Only one thread at a time may call its
/// functions.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void Append(uint8_t type, std::span<const std::byte> payload) = 0;
  /// Begins the next segment; success clears an earlier error.
  virtual void StartSegment() = 0;
  virtual void Flush() = 0;
  /// Returns the reason why records are rejected; empty while they are accepted.
  virtual const std::string& error() const = 0;
};

}  // namespace quire
