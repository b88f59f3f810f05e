#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/api/batches/file_draft.h"
#include "coordinator/api/batches/input_scan.h"
#include "coordinator/api/batches/kept_records.h"
#include "coordinator/api/batches/store_directory.h"
#include "coordinator/api/batches/store_limits.h"
#include "coordinator/api/batches/store_usage.h"
#include "coordinator/metrics/batch_view.h"

namespace quire {

/// The files and batches of /v1/files and /v1/batches, in a directory that outlives the server, even a crash. A client
/// finds only its own files and batches. Every byte in the directory counts to its client and to StoreLimits::bytes.
/// Methods except HasRoom(), limits() and totals() may wait for the disk, and one thread calls them at a time. They
/// throw ApiError to refuse a client's request, and Error when the disk fails.
class BatchStore {
 public:
  /// `now` returns the seconds since 1970. Renames records that cannot be read, with a warning. Throws Error when the
  /// directory cannot be used (StoreDirectory).
  BatchStore(const std::string& path, const StoreLimits& limits, std::function<int64_t()> now);
  /// Begins a file, which AppendTo fills and FinishFile makes visible. The draft must not outlive the store.
  std::shared_ptr<FileDraft> BeginFile(const std::string& client);
  void AppendTo(FileDraft& draft, std::string_view bytes);
  /// Makes the draft a file of its client. keep_seconds: lifetime; 0: StoreLimits::keep_seconds.
  FileRecord FinishFile(FileDraft& draft, const std::string& filename, int64_t keep_seconds);
  const FileRecord& FindFile(const std::string& client, const std::string& id) const;
  std::vector<const FileRecord*> FilesOf(const std::string& client) const;  // the oldest first; valid until a change
  void DeleteFile(const std::string& client, const std::string& id);  // refuses the input of a batch that is not over
  Descriptor OpenFile(const FileRecord& file) const { return directory_.OpenToRead(file.id); }
  BatchRecord CreateBatch(const std::string& client, const BatchTerms& terms);
  const BatchRecord& FindBatch(const std::string& client, const std::string& id) const;
  std::vector<const BatchRecord*> BatchesOf(const std::string& client) const;  // the oldest first; valid until a change
  BatchRecord CancelBatch(const std::string& client, const std::string& id);  // refuses a batch that is over
  std::vector<UnfinishedBatch> Unfinished() const;                            // the oldest first
  BatchViews Views(const BatchFilter& filter) const;
  /// Begins to read a batch's input. The scan skips requests whose whole result is recorded.
  std::unique_ptr<InputScan> Scan(const std::string& id);
  /// Takes the finished scan of a batch's input. The batch fails if the scan found faults, otherwise it is in progress.
  BatchRecord Validated(const std::string& id, const InputScan& scan);
  std::string ReadLine(const std::string& id, const LinePlace& place);  // a line of the input file
  /// Begins a file for the text of a long answer, until the answer is whole. The draft must not outlive the store.
  std::shared_ptr<FileDraft> BeginSpill(const std::string& client);
  /// Records the result of a request on the disk. `well`: the request succeeded. If this throws, nothing is recorded.
  void Record(const std::string& id, bool well, const ResultLine& line);
  /// Records up to `most` requests from the front of `places` as expired and removes them. If room ends, removes all.
  void RecordExpired(const std::string& id, std::deque<LinePlace>& places, size_t most);
  /// Ends a batch that runs no requests. Results become files. kExpired: an error counts the requests without a line.
  void Finish(const std::string& id, BatchStatus ends_as);
  /// Fails a batch whose input cannot be read from the disk. Recorded results become files.
  void Abandon(const std::string& id, const std::string& reason);
  void Prune();  // deletes files and batches that have expired
  /// True when the limits of the store allow a further result of this client. Any thread may call it.
  bool HasRoom(const std::string& client) const;
  const StoreLimits& limits() const { return limits_; }
  StoreTotals totals() const;  // callable from any thread

 private:
  struct Work {
    Descriptor input, output, errors;
  };
  void EndHalves(const std::set<std::string>& set_aside);
  BatchRecord& Batch(const std::string& id);
  Work& WorkOf(const BatchRecord& batch);
  Descriptor OpenResults(const BatchRecord& batch, const std::string& name, int64_t& lines);
  void Append(const std::string& client, const Descriptor& file, const std::string& name, const ResultLine& lines);
  void Save(const std::string& client, const std::string& id, const std::string& text);
  void Remove(const std::string& client, const std::string& name);
  void Publish(BatchRecord& batch);
  void PublishOne(const BatchRecord& batch, const std::string& results, const std::string& file_id,
                  const std::string& name_end);
  void MakeRoomForBatch(const std::string& client);
  void Forget(const std::string& id);
  void Erase(const FileRecord& file);
  bool IsInput(const std::string& file_id) const;
  int64_t RoomFor(const std::string& client) const;
  int64_t Share(const std::string& client, int64_t all) const { return client.empty() ? all : all / 2; }
  int64_t NextOrder();
  void Count();

  const StoreLimits limits_;
  std::function<int64_t()> now_;
  StoreUsage usage_;
  StoreDirectory directory_;
  std::map<std::string, FileRecord> files_;
  std::map<std::string, BatchRecord> batches_;
  std::map<std::string, Work> work_;  // open files of running batches
  int64_t last_order_ = 0;
  mutable std::mutex mutex_;  // guards totals_
  StoreTotals totals_;
};

}  // namespace quire
