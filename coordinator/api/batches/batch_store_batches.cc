#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/api/batches/batch_store.h"
#include "coordinator/api/batches/store_names.h"
#include "coordinator/batches/batch_line.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr int64_t kCopyBytes = 256 << 10;

ApiError NoSuchBatch(const std::string& id) {
  return {404, "no batch " + id.substr(0, 100) + " is kept for this key", "batch_id"};
}

InputScan::Bounds BoundsOf(const StoreLimits& limits) {
  return {.line_bytes = limits.line_bytes, .requests = limits.requests};
}

/// Returns about how many bytes a batch's record takes in memory.
int64_t BytesOf(const BatchRecord& batch) {
  constexpr int64_t kRest = 1024, kText = 64;  // members of fixed size; what a text takes beside its bytes
  int64_t bytes = kRest;
  for (const BatchFault& fault : batch.faults)
    bytes += 3 * kText + std::ssize(fault.code) + std::ssize(fault.message) + std::ssize(fault.param);
  if (batch.metadata.is_null()) return bytes;
  for (const auto& [name, value] : batch.metadata.items())
    bytes += 2 * kText + std::ssize(name) + std::ssize(value.get_ref<const std::string&>());
  return bytes;
}

/// Counts the batches, or their bytes, of each client.
class Crowd {
 public:
  void Add(const std::string& client, int64_t count) {
    of_client_[client] += count;
    all_ += count;
  }
  /// Returns the client that must give something up before `newcomer` gets more. This is the newcomer if it has `share`
  /// or more. Otherwise, if all clients together have `most` or more, it is the client that has the largest count.
  /// Returns nullopt if there is room.
  std::optional<std::string> Loser(const std::string& newcomer, int64_t share, int64_t most) {
    if (of_client_[newcomer] >= share) return newcomer;
    if (all_ < most) return std::nullopt;
    return std::ranges::max_element(of_client_, {}, [](const auto& entry) { return entry.second; })->first;
  }

 private:
  std::map<std::string, int64_t> of_client_;
  int64_t all_ = 0;
};

/// Returns the oldest ended batch of a client. Throws ApiError 429 when none has ended.
const BatchRecord& OldestEnded(const std::map<std::string, BatchRecord>& batches, const std::string& client) {
  const BatchRecord* oldest = nullptr;
  for (const auto& [id, batch] : batches) {
    const bool may_go = batch.client == client && IsOver(batch.status);
    if (may_go && (oldest == nullptr || batch.order < oldest->order)) oldest = &batch;
  }
  if (oldest == nullptr) throw ApiError(429, "too many batches are not over; try again later");
  return *oldest;
}

/// Removes the later half of a batch's faults, again and again, until the batch's record has at most `record_bytes`
/// bytes. One fault stays in any case.
void CutFaultsTo(int64_t record_bytes, BatchRecord& batch) {
  while (batch.faults.size() > 1 && std::cmp_greater(TextOf(batch).size(), record_bytes))
    batch.faults.resize(batch.faults.size() / 2);
}

}  // namespace

BatchRecord BatchStore::CreateBatch(const std::string& client, const BatchTerms& terms) {
  const auto input = files_.find(terms.input_file_id);
  if (input == files_.end() || input->second.client != client)
    throw ApiError(400, "no file " + terms.input_file_id.substr(0, 100) + " is kept for this key", "input_file_id");
  const auto unfinished = std::ranges::count_if(
      batches_, [&](const auto& entry) { return entry.second.client == client && !IsOver(entry.second.status); });
  if (unfinished >= limits_.unfinished) {
    throw ApiError(
        429, fmt::format("{} batches of this key are not over, which is the most: try again when one is", unfinished));
  }
  MakeRoomForBatch(client);
  BatchRecord batch{.id = NewStoredId(kBatchPrefix),
                    .client = client,
                    .endpoint = terms.endpoint,
                    .input_file_id = terms.input_file_id,
                    .completion_window = terms.completion_window,
                    .metadata = terms.metadata,
                    .created_at = now_(),
                    .output_seconds = terms.output_seconds,
                    .order = NextOrder()};
  batch.expires_at = batch.created_at + terms.window_seconds;
  const std::string record = TextOf(batch);
  if (std::cmp_greater(record.size(), RoomFor(client)))
    throw ApiError(400, "there is no room for more batches: delete files, or ask for a larger --batch-max-bytes");
  Save(client, batch.id, record);
  batches_[batch.id] = batch;
  Count();
  return batch;
}

/// Makes space for one more batch of the client: deletes ended batches while there are too many batches, or while their
/// records take too many bytes.
void BatchStore::MakeRoomForBatch(const std::string& client) {
  Crowd counts, bytes;
  for (const auto& [id, batch] : batches_) {
    counts.Add(batch.client, 1);
    bytes.Add(batch.client, BytesOf(batch));
  }
  const auto shrink = [&](Crowd& crowd, int64_t most) {
    while (const std::optional<std::string> loser = crowd.Loser(client, Share(client, most), most)) {
      const BatchRecord& oldest = OldestEnded(batches_, *loser);
      counts.Add(*loser, -1);
      bytes.Add(*loser, -BytesOf(oldest));
      Forget(std::string(oldest.id));
    }
  };
  shrink(counts, limits_.batches);
  shrink(bytes, limits_.record_bytes);
}

void BatchStore::Forget(const std::string& id) {
  Remove(Batch(id).client, id + std::string(kRecordEnd));
  batches_.erase(id);
}

const BatchRecord& BatchStore::FindBatch(const std::string& client, const std::string& id) const {
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second.client != client) throw NoSuchBatch(id);
  return found->second;
}

std::vector<const BatchRecord*> BatchStore::BatchesOf(const std::string& client) const {
  std::vector<const BatchRecord*> own;
  for (const auto& [id, batch] : batches_) {
    if (batch.client == client) own.push_back(&batch);
  }
  std::ranges::sort(own, {}, &BatchRecord::order);
  return own;
}

BatchRecord BatchStore::CancelBatch(const std::string& client, const std::string& id) {
  BatchRecord batch = FindBatch(client, id);
  if (batch.status == BatchStatus::kCancelling) return batch;
  if (IsOver(batch.status) || batch.status == BatchStatus::kFinalizing) {
    ApiError error(409, fmt::format("a batch that is {} cannot be cancelled", NameOf(batch.status)), "batch_id");
    error.retry_in_vain = true;
    throw error;
  }
  batch.Enter(BatchStatus::kCancelling, now_());
  batch.ends_as = BatchStatus::kCancelled;
  Save(client, id, TextOf(batch));
  batches_[id] = batch;
  Count();
  return batch;
}

std::vector<UnfinishedBatch> BatchStore::Unfinished() const {
  std::vector<UnfinishedBatch> unfinished;
  for (const auto& [id, batch] : batches_) {
    if (IsOver(batch.status)) continue;
    const auto input = files_.find(batch.input_file_id);
    const int64_t input_bytes = input == files_.end() ? 0 : input->second.bytes;
    unfinished.push_back({id, batch.client, batch.endpoint, batch.status, batch.expires_at, batch.order,
                          InputScan::MostBytes(input_bytes, BoundsOf(limits_))});
  }
  std::ranges::sort(unfinished, {}, &UnfinishedBatch::order);
  return unfinished;
}

BatchViews BatchStore::Views(const BatchFilter& filter) const {
  std::vector<const BatchRecord*> matching;
  for (const auto& [id, batch] : batches_) {
    const bool fits = (filter.client.empty() || batch.client == filter.client) &&
                      (filter.status.empty() || NameOf(batch.status) == filter.status);
    if (fits) matching.push_back(&batch);
  }
  // In the list, ended batches follow all other batches, and the latest ended batch comes first.
  const auto place = [](const BatchRecord* batch) {
    return IsOver(batch->status) ? std::pair(true, -batch->order) : std::pair(false, batch->order);
  };
  std::ranges::sort(matching, {}, place);
  BatchViews views{.matching = matching.size()};
  matching.resize(std::min(matching.size(), filter.limit));
  for (const BatchRecord* batch : matching) views.batches.push_back(batch->ToView());
  return views;
}

BatchRecord& BatchStore::Batch(const std::string& id) {
  const auto found = batches_.find(id);
  if (found == batches_.end()) Fail("batch {} is gone", id);
  return found->second;
}

/// Opens a batch's file of results to append, and cuts an unfinished last line. Sets `lines` to the number of lines.
Descriptor BatchStore::OpenResults(const BatchRecord& batch, const std::string& name, int64_t& lines) {
  Descriptor file = directory_.OpenToAppend(name);
  const int64_t before = directory_.BytesOf(name);
  lines = CutAtLastLine(file.get(), directory_.path() + "/" + name);
  usage_.Add(batch.client, directory_.BytesOf(name) - before);
  return file;
}

BatchStore::Work& BatchStore::WorkOf(const BatchRecord& batch) {
  const auto found = work_.find(batch.id);
  if (found != work_.end()) return found->second;
  int64_t completed = 0, failed = 0;
  Work work{{}, OpenResults(batch, OutputOf(batch), completed), OpenResults(batch, ErrorsOf(batch), failed)};
  BatchRecord& kept = Batch(batch.id);
  kept.completed = completed;
  kept.failed = failed;
  return work_[batch.id] = std::move(work);
}

std::unique_ptr<InputScan> BatchStore::Scan(const std::string& id) {
  BatchRecord& batch = Batch(id);
  work_.erase(id);
  const Work& work = WorkOf(batch);
  CustomIds recorded;
  ReadRecordedIds(work.output.get(), directory_.path() + "/" + OutputOf(batch), recorded);
  ReadRecordedIds(work.errors.get(), directory_.path() + "/" + ErrorsOf(batch), recorded);
  return std::make_unique<InputScan>(directory_.OpenToRead(batch.input_file_id),
                                     directory_.path() + "/" + batch.input_file_id, batch.endpoint, std::move(recorded),
                                     BoundsOf(limits_));
}

BatchRecord BatchStore::Validated(const std::string& id, const InputScan& scan) {
  BatchRecord next = Batch(id);
  next.total = scan.total();
  if (!scan.faults().empty()) {
    next.faults = scan.faults();
    next.Enter(BatchStatus::kFailed, now_());
    CutFaultsTo(RoomFor(next.client) + directory_.BytesOf(id + std::string(kRecordEnd)), next);
  } else if (next.status == BatchStatus::kValidating) {
    next.Enter(BatchStatus::kInProgress, now_());
  }
  Save(next.client, id, TextOf(next));
  Batch(id) = next;
  if (IsOver(next.status)) {
    work_.erase(id);
    Remove(next.client, OutputOf(next));
    Remove(next.client, ErrorsOf(next));
  }
  Count();
  return next;
}

std::string BatchStore::ReadLine(const std::string& id, const LinePlace& place) {
  const BatchRecord& batch = Batch(id);
  const std::string what = directory_.path() + "/" + batch.input_file_id;
  Work& work = WorkOf(batch);
  if (!work.input.open()) work.input = directory_.OpenToRead(batch.input_file_id);
  std::string line = ReadAt(work.input.get(), place.begin, place.bytes, what);
  if (line.size() != place.bytes) Fail("{}: it was cut meanwhile", what);
  return line;
}

void BatchStore::Append(const std::string& client, const Descriptor& file, const std::string& name,
                        const ResultLine& lines) {
  const std::string what = directory_.path() + "/" + name;
  const int64_t before = directory_.BytesOf(name);
  try {
    WriteFully(file.get(), lines.begin, what);
    for (int64_t at = 0; lines.spilled != nullptr && at < lines.spilled->bytes(); at += kCopyBytes)
      WriteFully(file.get(), lines.spilled->Read(at, kCopyBytes), what);
    WriteFully(file.get(), lines.end + "\n", what);
    SyncContent(file.get(), what);
  } catch (...) {
    CutTo(file.get(), before);
    throw;
  }
  usage_.Add(client, directory_.BytesOf(name) - before);
}

void BatchStore::Record(const std::string& id, bool well, const ResultLine& line) {
  BatchRecord& batch = Batch(id);
  const Work& work = WorkOf(batch);
  Append(batch.client, well ? work.output : work.errors, well ? OutputOf(batch) : ErrorsOf(batch), line);
  ++(well ? batch.completed : batch.failed);
  const std::lock_guard lock(mutex_);
  ++(well ? totals_.completed : totals_.failed);
}

}  // namespace quire
