// The part of BatchStore that handles files and reads the directory at a start. batch_store_batches.cc has the batches.
#include "coordinator/api/batches/batch_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/api/batches/store_names.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

ApiError NoSuchFile(const std::string& id) {
  return {404, "no file " + id.substr(0, 100) + " is kept for this key", "file_id"};
}

ApiError NoRoom() {
  return {400, "there is no room for more files: delete some, or ask for a larger --batch-max-bytes", "file"};
}

}  // namespace

std::string NewStoredId(std::string_view prefix) {
  std::random_device entropy;
  std::string id(prefix);
  for (int i = 0; i < 3; ++i) id += fmt::format("{:08x}", entropy());
  return id;
}

BatchStore::BatchStore(const std::string& path, const StoreLimits& limits, std::function<int64_t()> now)
    : limits_(limits), now_(std::move(now)), directory_(path) {
  KeptRecords kept = LoadRecords(directory_);
  files_ = std::move(kept.files);
  batches_ = std::move(kept.batches);
  for (const auto& [id, file] : files_) last_order_ = std::max(last_order_, file.order);
  for (const auto& [id, batch] : batches_) last_order_ = std::max(last_order_, batch.order);
  EndHalves(kept.set_aside);
  Prune();
}

/// Cleans up after a server that was killed. Removes contents without a record, except contents with an unreadable
/// record (their ids are in `set_aside`). Finishes batches whose results were becoming files. Then counts the
/// directory's bytes.
void BatchStore::EndHalves(const std::set<std::string>& set_aside) {
  for (auto& [id, batch] : batches_) {
    if (batch.status == BatchStatus::kFinalizing) Publish(batch);
  }
  std::erase_if(files_, [&](const auto& entry) { return !directory_.Has(entry.first); });
  usage_.Clear();
  for (const std::string& name : directory_.Names()) {
    const std::string id = IdOfName(name);
    const auto file = files_.find(id);
    const auto batch = batches_.find(id);
    const bool is_result = name.ends_with(kOutputEnd) || name.ends_with(kErrorsEnd);
    const bool is_needed = file != files_.end() || set_aside.contains(id) ||
                           (batch != batches_.end() && !(is_result && IsOver(batch->second.status)));
    if (!is_needed && (name.starts_with(kFilePrefix) || name.starts_with(kBatchPrefix))) {
      directory_.Remove(name);
      continue;
    }
    const std::string client = file != files_.end()       ? file->second.client
                               : batch != batches_.end() ? batch->second.client
                                                          : "";
    usage_.Add(client, directory_.BytesOf(name));
  }
}

std::shared_ptr<FileDraft> BatchStore::BeginFile(const std::string& client) {
  int64_t own = 0;
  for (const auto& [id, file] : files_) own += file.client == client;
  if (std::cmp_greater_equal(files_.size(), limits_.files) || own >= Share(client, limits_.files))
    throw ApiError(400, fmt::format("{} files are kept for this key, and there may be no more: delete some", own));
  const int64_t room = RoomFor(client);
  if (room <= 0) throw NoRoom();
  return std::make_shared<FileDraft>(directory_, client, NewStoredId(kFilePrefix), std::min(room, limits_.file_bytes),
                                     usage_);
}

std::shared_ptr<FileDraft> BatchStore::BeginSpill(const std::string& client) {
  return std::make_shared<FileDraft>(directory_, client, NewStoredId(kFilePrefix), INT64_MAX, usage_);
}

/// Returns the bytes that a client may still store; 0 or less: none.
int64_t BatchStore::RoomFor(const std::string& client) const {
  return std::min(limits_.bytes - usage_.in_all(), Share(client, limits_.bytes) - usage_.Of(client));
}

bool BatchStore::HasRoom(const std::string& client) const { return RoomFor(client) > 0; }

void BatchStore::AppendTo(FileDraft& draft, std::string_view bytes) {
  if (std::cmp_greater(bytes.size(), RoomFor(draft.client()))) throw NoRoom();
  draft.Append(bytes);
}

FileRecord BatchStore::FinishFile(FileDraft& draft, const std::string& filename, int64_t keep_seconds) {
  const int64_t now = now_(), kept = keep_seconds > 0 ? keep_seconds : limits_.keep_seconds;
  FileRecord file{draft.id(), draft.client(), filename, "batch", draft.bytes(), now, now + kept, NextOrder()};
  const std::string record = TextOf(file);
  if (std::cmp_greater(record.size(), RoomFor(draft.client()))) throw NoRoom();
  draft.Keep();
  Save(file.client, file.id, record);
  files_[file.id] = file;
  Count();
  return file;
}

const FileRecord& BatchStore::FindFile(const std::string& client, const std::string& id) const {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.client != client) throw NoSuchFile(id);
  return found->second;
}

std::vector<const FileRecord*> BatchStore::FilesOf(const std::string& client) const {
  std::vector<const FileRecord*> own;
  for (const auto& [id, file] : files_) {
    if (file.client == client) own.push_back(&file);
  }
  std::ranges::sort(own, {}, &FileRecord::order);
  return own;
}

bool BatchStore::IsInput(const std::string& file_id) const {
  return std::ranges::any_of(batches_, [&](const auto& entry) {
    return entry.second.input_file_id == file_id && !IsOver(entry.second.status);
  });
}

void BatchStore::DeleteFile(const std::string& client, const std::string& id) {
  const FileRecord file = FindFile(client, id);
  if (IsInput(id))
    throw ApiError(400, "a batch that is not over reads this file: wait for its end, or cancel it", "file_id");
  Erase(file);
  Count();
}

/// Deletes a file: first the record, then the content. If the server is killed in between, the next start removes the
/// content. The content's bytes are free immediately: an answer that still sends the content breaks off.
void BatchStore::Erase(const FileRecord& file) {
  const std::string id = file.id;
  const std::string client = file.client;
  Remove(client, id + std::string(kRecordEnd));
  const int64_t bytes = directory_.BytesOf(id);
  directory_.RemoveContent(id);
  usage_.Add(client, -bytes);
  files_.erase(id);
}

void BatchStore::Prune() {
  const int64_t now = now_();
  std::vector<FileRecord> old;
  for (const auto& [id, file] : files_) {
    if (file.expires_at > 0 && file.expires_at <= now && !IsInput(id)) old.push_back(file);
  }
  for (const FileRecord& file : old) Erase(file);
  std::vector<std::string> ended;
  for (const auto& [id, batch] : batches_) {
    if (!IsOver(batch.status)) continue;
    if (batch.reached[static_cast<size_t>(batch.status)] + limits_.keep_seconds <= now) ended.push_back(id);
  }
  for (const std::string& id : ended) Forget(id);
  Count();
}

/// Writes `text`, the record of the file or batch `id`, to the disk, and counts its bytes as the client's.
void BatchStore::Save(const std::string& client, const std::string& id, const std::string& text) {
  const std::string name = id + std::string(kRecordEnd);
  const int64_t before = directory_.BytesOf(name);
  directory_.WriteWhole(name, text);
  usage_.Add(client, static_cast<int64_t>(text.size()) - before);
}

void BatchStore::Remove(const std::string& client, const std::string& name) {
  const int64_t bytes = directory_.BytesOf(name);
  directory_.Remove(name);
  usage_.Add(client, -bytes);
}

int64_t BatchStore::NextOrder() {
  constexpr int64_t kPerSecond = 1'000'000;
  last_order_ = std::max(last_order_ + 1, now_() * kPerSecond);
  return last_order_;
}

void BatchStore::Count() {
  StoreTotals counted;
  counted.files = static_cast<int64_t>(files_.size());
  for (const auto& [id, batch] : batches_) ++counted.batches[static_cast<size_t>(batch.status)];
  const std::lock_guard lock(mutex_);
  counted.completed = totals_.completed;
  counted.failed = totals_.failed;
  totals_ = counted;
}

StoreTotals BatchStore::totals() const {
  const std::lock_guard lock(mutex_);
  StoreTotals now = totals_;
  now.bytes = usage_.in_all();
  return now;
}

}  // namespace quire
