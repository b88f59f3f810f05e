#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/metrics/batch_view.h"

namespace quire {

/// A file of /v1/files, without its content. Times are seconds since 1970; 0: never.
struct FileRecord {
  std::string id, client, filename, purpose;
  int64_t bytes = 0, created_at = 0, expires_at = 0;
  int64_t order = 0;  // a number that rises with every new file

  Json ToPublic() const;  // the form that clients see
  Json ToJson() const;    // the form on disk
  static FileRecord FromJson(const Json& json);
};

enum class BatchStatus {
  kValidating,
  kFailed,
  kInProgress,
  kFinalizing,
  kCompleted,
  kExpired,
  kCancelling,
  kCancelled
};
inline constexpr int kBatchStatuses = 8;
std::string_view NameOf(BatchStatus status);
/// True for the status of an ended batch: completed, failed, expired or cancelled.
bool IsOver(BatchStatus status);

/// A fault of a batch's input file. line: counted from 1; 0: the fault concerns the whole file.
struct BatchFault {
  std::string code, message, param;
  int64_t line = 0;
};

/// A batch of /v1/batches. Times are in seconds since 1970; 0: the event has not happened.
struct BatchRecord {
  std::string id, client, endpoint, input_file_id, completion_window, output_file_id, error_file_id;
  BatchStatus status = BatchStatus::kValidating;
  BatchStatus ends_as = BatchStatus::kCompleted;  // status after finalizing or cancelling
  Json metadata;                                  // an object of texts, or null
  std::vector<BatchFault> faults;
  int64_t created_at = 0, expires_at = 0,
          output_seconds = 0;                    // output_seconds: lifetime of the result files; 0: keep_seconds
  int64_t total = 0, completed = 0, failed = 0;  // numbers of requests
  int64_t order = 0;                             // a number that rises with every new batch
  int64_t reached[kBatchStatuses] = {};          // the time when the batch got each status, indexed by BatchStatus

  /// Sets the status and the time at which it was reached.
  void Enter(BatchStatus next, int64_t now);
  Json ToPublic(size_t most_faults = SIZE_MAX) const;  // the form that clients see, with the first faults
  BatchView ToView() const;                            // without members that only a BatchRunner knows
  Json ToJson() const;
  static BatchRecord FromJson(const Json& json);
};

/// The data that a BatchRunner needs about a batch that is not over.
struct UnfinishedBatch {
  std::string id, client, endpoint;
  BatchStatus status = BatchStatus::kValidating;
  int64_t expires_at = 0;  // seconds since 1970
  int64_t order = 0;       // BatchRecord::order
  int64_t scan_bytes = 0;  // the most memory that reading the batch's input takes
};

}  // namespace quire
