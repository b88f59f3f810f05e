// The part of BatchStore that handles files and reads the directory at a start. batch_store_batches.cc has the batches.
#include "coordinator/api/batches/batch_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/api/batches/store_names.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr size_t kRecordBytes = 1 << 20;  // the most that a record's file may have

Json ParseRecord(const std::string& text, const std::string& what) {
  return ParseJson(text, what, {.max_depth = 8, .max_nodes = 10'000});
}

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
  const std::vector<std::string> names = directory_.Names();
  LoadRecords(names);
  EndHalves(names);
  Prune();
}

void BatchStore::LoadRecords(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool is_file = name.starts_with(kFilePrefix), is_batch = name.starts_with(kBatchPrefix);
    if (!is_file && !is_batch) continue;
    if (name.ends_with(kUnfinishedEnd)) {
      directory_.Remove(name);
    } else if (name.ends_with(kRecordEnd)) {
      const std::string what = directory_.path() + "/" + name;
      try {
        const Json json = ParseRecord(directory_.ReadWhole(name, kRecordBytes), what);
        if (is_file) files_[json.at("id").get<std::string>()] = FileRecord::FromJson(json);
        if (is_batch) batches_[json.at("id").get<std::string>()] = BatchRecord::FromJson(json);
      } catch (const std::exception& error) {
        Fail("{}: {}; this file is not as the server left it: move it and what else begins with its name away", what,
             error.what());
      }
    }
  }
  for (auto& [id, file] : files_) last_order_ = std::max(last_order_, file.order);
  for (auto& [id, batch] : batches_) last_order_ = std::max(last_order_, batch.order);
}

/// Cleans up after a server that was killed. Contents without a record are removed. Results that were about to become
/// files become files.
void BatchStore::EndHalves(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool is_result = name.ends_with(kOutputEnd) || name.ends_with(kErrorsEnd);
    if (name.starts_with(kBatchPrefix) && is_result) {
      const auto batch = batches_.find(name.substr(0, name.find('.')));
      if (batch == batches_.end() || IsOver(batch->second.status)) {
        directory_.Remove(name);
      } else {
        result_bytes_ += directory_.BytesOf(name);
      }
    }
  }
  for (auto& [id, batch] : batches_) {
    if (batch.status == BatchStatus::kFinalizing) Publish(batch);
  }
  for (const std::string& name : names) {
    const bool is_content = name.starts_with(kFilePrefix) && name.find('.') == std::string::npos;
    if (is_content && !files_.contains(name)) directory_.Remove(name);
  }
  std::erase_if(files_, [&](const auto& entry) { return !directory_.Has(entry.first); });
}

std::shared_ptr<FileDraft> BatchStore::BeginFile(const std::string& client) {
  int64_t own = 0;
  for (const auto& [id, file] : files_) own += file.client == client;
  if (std::cmp_greater_equal(files_.size(), limits_.files) || own >= Share(client, limits_.files))
    throw ApiError(400, fmt::format("{} files are kept for this key, and there may be no more: delete some", own));
  const int64_t free = limits_.bytes - totals().bytes - draft_bytes_;
  const int64_t room = std::min(free, Share(client, limits_.bytes) - BytesOf(client));
  if (room <= 0) throw NoRoom();
  return std::make_shared<FileDraft>(directory_, client, NewStoredId(kFilePrefix), std::min(room, limits_.file_bytes),
                                     draft_bytes_);
}

void BatchStore::AppendTo(FileDraft& draft, std::string_view bytes) {
  if (totals().bytes + draft_bytes_ + static_cast<int64_t>(bytes.size()) > limits_.bytes) throw NoRoom();
  draft.Append(bytes);
}

FileRecord BatchStore::FinishFile(FileDraft& draft, const std::string& filename, int64_t keep_seconds) {
  if (BytesOf(draft.client()) + draft.bytes() > Share(draft.client(), limits_.bytes)) throw NoRoom();
  draft.Keep();
  const int64_t now = now_(), kept = keep_seconds > 0 ? keep_seconds : limits_.keep_seconds;
  FileRecord file{draft.id(), draft.client(), filename, "batch", draft.bytes(), now, now + kept, NextOrder()};
  Save(file);
  files_[file.id] = file;
  Count();
  return file;
}

const FileRecord& BatchStore::FindFile(const std::string& client, const std::string& id) const {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.client != client) throw NoSuchFile(id);
  return found->second;
}

std::vector<FileRecord> BatchStore::FilesOf(const std::string& client) const {
  std::vector<FileRecord> own;
  for (const auto& [id, file] : files_) {
    if (file.client == client) own.push_back(file);
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

/// The record goes first: content without a record is removed at a start, a record without content would be a lie.
void BatchStore::Erase(const FileRecord& file) {
  const std::string id = file.id;
  directory_.Remove(id + std::string(kRecordEnd));
  directory_.Remove(id);
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

void BatchStore::Save(const FileRecord& file) const {
  directory_.WriteWhole(file.id + std::string(kRecordEnd), DumpJson(file.ToJson()));
}

int64_t BatchStore::BytesOf(const std::string& client) const {
  int64_t bytes = 0;
  for (const auto& [id, file] : files_) bytes += file.client == client ? file.bytes : 0;
  return bytes;
}

int64_t BatchStore::NextOrder() {
  constexpr int64_t kPerSecond = 1'000'000;
  last_order_ = std::max(last_order_ + 1, now_() * kPerSecond);
  return last_order_;
}

void BatchStore::Count() {
  StoreTotals counted;
  counted.files = static_cast<int64_t>(files_.size());
  counted.bytes = result_bytes_;
  for (const auto& [id, file] : files_) counted.bytes += file.bytes;
  for (const auto& [id, batch] : batches_) ++counted.batches[static_cast<size_t>(batch.status)];
  const std::lock_guard lock(mutex_);
  counted.completed = totals_.completed;
  counted.failed = totals_.failed;
  totals_ = counted;
}

StoreTotals BatchStore::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace quire
