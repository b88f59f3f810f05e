// The part of BatchStore that ends batches: lines of requests that were not executed, and files of results.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/batches/store_names.h"
#include "coordinator/batches/batch_line.h"

namespace quire {

namespace {

constexpr size_t kExpiredBytes = 1 << 20;  // bytes of input after which RecordExpired stops at the end of a line
constexpr int64_t kRecordsRoom = 4 << 10;  // bytes kept free for the records of an expired batch and its two files

/// Gives an expired batch an error if its input was not read, or if some of its requests have neither a result nor a
/// line that says `batch_expired`. These requests count as failed.
void TellOfMissingLines(BatchRecord& batch) {
  const int64_t missing = batch.total - batch.completed - batch.failed;
  if (batch.total == 0) {
    batch.faults = {{"batch_expired", "the completion window ended before the input file was read", "", 0}};
  } else if (missing > 0) {
    batch.faults = {
        {"batch_expired",
         fmt::format("{} requests that were not executed before the completion window ended have no line in "
                     "the error file, because there was no room for more: delete files, or ask for a larger "
                     "--batch-max-bytes",
                     missing),
         "", 0}};
    batch.failed += missing;
  }
}

}  // namespace

void BatchStore::RecordExpired(const std::string& id, std::deque<LinePlace>& places, size_t most) {
  BatchRecord& batch = Batch(id);
  const int64_t room = RoomFor(batch.client) - kRecordsRoom;
  std::string lines;
  size_t count = 0, bytes = 0;
  bool is_full = false;
  for (; count < std::min(most, places.size()) && bytes < kExpiredBytes; ++count) {
    const std::string line = ReadLine(id, places[count]);
    bytes += line.size();
    const std::string custom_id = ReadBatchLine(line, "line").custom_id;
    const std::string next = BatchErrorLine(NewStoredId("batch_req_"), custom_id, "batch_expired",
                                            "the request was not executed before the completion window ended");
    is_full = std::cmp_greater(lines.size() + next.size() + 2, room);
    if (is_full) break;
    if (!lines.empty()) lines += '\n';
    lines += next;
  }
  if (count > 0) Append(batch.client, WorkOf(batch).errors, ErrorsOf(batch), {.begin = std::move(lines)});
  places.erase(places.begin(), is_full ? places.end() : places.begin() + static_cast<ptrdiff_t>(count));
  batch.failed += static_cast<int64_t>(count);
  Count();
  const std::lock_guard lock(mutex_);
  totals_.failed += static_cast<int64_t>(count);
}

void BatchStore::Finish(const std::string& id, BatchStatus ends_as) {
  BatchRecord next = Batch(id);
  (void)WorkOf(next);  // takes the batch's counts from the disk
  next = Batch(id);
  next.ends_as = ends_as;
  next.output_file_id = next.completed > 0 ? NewStoredId(kFilePrefix) : "";
  next.error_file_id = next.failed > 0 ? NewStoredId(kFilePrefix) : "";
  if (ends_as == BatchStatus::kExpired) TellOfMissingLines(next);
  if (next.status == BatchStatus::kCancelling) {
    next.status = BatchStatus::kFinalizing;  // unlike Enter, does not change the time of the cancellation
  } else {
    next.Enter(BatchStatus::kFinalizing, now_());
  }
  Save(next.client, id, TextOf(next));
  Batch(id) = next;
  work_.erase(id);
  Publish(Batch(id));
  Count();
}

/// Makes files of a batch's results. After an interruption at any point this function can be called again.
void BatchStore::Publish(BatchRecord& batch) {
  PublishOne(batch, OutputOf(batch), batch.output_file_id, "_output.jsonl");
  PublishOne(batch, ErrorsOf(batch), batch.error_file_id, "_error.jsonl");
  BatchRecord next = batch;
  next.Enter(batch.ends_as, now_());
  Save(next.client, next.id, TextOf(next));
  batch = next;
}

void BatchStore::PublishOne(const BatchRecord& batch, const std::string& results, const std::string& file_id,
                            const std::string& name_end) {
  if (file_id.empty()) return Remove(batch.client, results);
  if (directory_.Has(results)) directory_.Rename(results, file_id);
  if (files_.contains(file_id) || !directory_.Has(file_id)) return;
  const int64_t now = now_(), kept = batch.output_seconds > 0 ? batch.output_seconds : limits_.keep_seconds;
  const FileRecord file{file_id, batch.client, batch.id + name_end, "batch_output", directory_.BytesOf(file_id),
                        now,     now + kept,   NextOrder()};
  Save(file.client, file_id, TextOf(file));
  files_[file_id] = file;
}

void BatchStore::Abandon(const std::string& id, const std::string& reason) {
  Batch(id).faults = {{"internal_error", reason, "", 0}};
  Finish(id, BatchStatus::kFailed);
}

}  // namespace quire
