#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "coordinator/api/batches/custom_ids.h"
#include "coordinator/api/batches/records.h"

namespace quire {

/// The place of a batch's request in the batch's input file.
struct LinePlace {
  int64_t begin = 0;
  size_t bytes = 0;
  int64_t number = 0;  // the line's number, counted from 1
};

/// Reads the input file of a batch once, piece by piece: checks every line, and finds the requests that have no result
/// yet.
class InputScan {
 public:
  struct Bounds {
    size_t line_bytes = 0, custom_id_bytes = 512;  // most bytes of one line and of one custom_id
    int64_t requests = 0;                          // requests in the file
    size_t faults = 100;                           // most faults that are recorded
  };
  /// what: the file's name, for errors. endpoint: the path to which all requests must go. ids: the custom_ids of the
  /// requests that have a result.
  InputScan(Descriptor input, std::string what, std::string endpoint, CustomIds ids, const Bounds& bounds);
  /// Returns the most memory that the scan of a file of `input_bytes` bytes takes.
  static int64_t MostBytes(int64_t input_bytes, const Bounds& bounds);

  /// Reads about `bytes` more bytes. Returns true once the whole file is read, Bounds::faults faults are found, or the
  /// file has too many lines or requests. Throws Error when the disk fails.
  bool Continue(size_t bytes);

  // Return the results, once Continue() has returned true:
  const std::vector<BatchFault>& faults() const { return faults_; }  // the first Bounds::faults faults
  int64_t total() const { return total_; }                           // number of requests
  std::deque<LinePlace>& pending() { return pending_; }              // requests without a result, in the file's order

 private:
  void TakeLine();
  void CheckLine();
  void Add(BatchFault fault);
  void TakePiece(const std::string& piece);
  bool FoundEnough() const { return too_many_ || faults_.size() >= bounds_.faults; }

  Descriptor input_;
  std::string what_, endpoint_;
  CustomIds ids_;
  Bounds bounds_;
  off_t offset_ = 0;       // offset of the next byte to read
  std::string line_;       // the current line, as far as it was read
  int64_t begin_ = 0;      // offset at which line_ begins
  bool too_long_ = false;  // true: line_ is too long, and bytes are skipped until the line's end
  int64_t number_ = 0, total_ = 0;
  bool too_many_ = false;  // the file has more lines than it may
  std::vector<BatchFault> faults_;
  std::deque<LinePlace> pending_;
};

/// Adds the custom_ids in a file of results to `ids`. what: the file's name, for errors. A last line that was not
/// written whole is left out. Throws Error when another line is no result.
void ReadRecordedIds(int descriptor, const std::string& what, CustomIds& ids);

}  // namespace quire
