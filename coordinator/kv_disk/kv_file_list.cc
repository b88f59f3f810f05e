#include "coordinator/kv_disk/kv_file_list.h"

#include <algorithm>

namespace quire {

namespace {

/// The fraction of each limit that stays used after files were removed to make room.
constexpr double kFilledShare = 0.95;

int64_t FilledOf(int64_t limit) { return static_cast<int64_t>(kFilledShare * static_cast<double>(limit)); }

}  // namespace

bool KvFileList::Holds(const std::string& name) const {
  const std::lock_guard lock(held_mutex_);
  return held_.contains(name);
}

/// Copies the sums to the atomic counters. The caller holds files_mutex_.
void KvFileList::Count() {
  num_files_ = std::ssize(files_);
  num_bytes_ = total_bytes_;
}

void KvFileList::Replace(std::vector<KvFolder::Entry> entries) {
  Files files;
  std::unordered_set<std::string> held;
  files.reserve(entries.size());
  int64_t total = 0;
  for (KvFolder::Entry& entry : entries) {
    if (entry.folder == own_folder_) held.insert(entry.name);
    total += entry.bytes;
    const std::string* folder = nullptr;
    {
      const std::lock_guard lock(files_mutex_);
      folder = Folder(entry.folder);
    }
    files[std::move(entry.name)] = {folder, entry.bytes, entry.used_seconds};
  }
  {
    const std::lock_guard lock(files_mutex_);
    files_.swap(files);
    total_bytes_ = total;
    Count();
  }
  const std::lock_guard lock(held_mutex_);
  held_.swap(held);
}

void KvFileList::Add(const std::string& name, int64_t bytes, double used_seconds) {
  {
    const std::lock_guard lock(files_mutex_);
    File& file = files_[name];
    total_bytes_ += bytes - file.bytes;
    file = {Folder(own_folder_), bytes, used_seconds};
    Count();
  }
  const std::lock_guard lock(held_mutex_);
  held_.insert(name);
}

void KvFileList::Forget(const std::string& name) {
  {
    const std::lock_guard lock(files_mutex_);
    const auto file = files_.find(name);
    if (file == files_.end()) return;
    total_bytes_ -= file->second.bytes;
    files_.erase(file);
    Count();
  }
  const std::lock_guard lock(held_mutex_);
  held_.erase(name);
}

std::optional<double> KvFileList::UseOf(const std::string& name) const {
  const std::lock_guard lock(files_mutex_);
  const auto file = files_.find(name);
  return file == files_.end() ? std::nullopt : std::optional(file->second.used_seconds);
}

void KvFileList::SetUse(const std::string& name, double used_seconds) {
  const std::lock_guard lock(files_mutex_);
  if (const auto file = files_.find(name); file != files_.end()) file->second.used_seconds = used_seconds;
}

std::vector<std::pair<std::string, std::string>> KvFileList::Surplus(int64_t bytes) const {
  if (num_bytes_ + bytes <= max_bytes_ && num_files_ + 1 <= kMostFiles) return {};
  const std::lock_guard lock(files_mutex_);
  std::vector<const Files::value_type*> oldest;
  oldest.reserve(files_.size());
  for (const auto& each : files_) oldest.push_back(&each);
  std::ranges::sort(oldest, {}, [](const auto* each) { return each->second.used_seconds; });
  std::vector<std::pair<std::string, std::string>> surplus;
  int64_t total = total_bytes_ + bytes, count = std::ssize(files_) + 1;
  for (const auto* each : oldest) {
    if (total <= FilledOf(max_bytes_) && count <= FilledOf(kMostFiles)) break;
    total -= each->second.bytes;
    --count;
    surplus.emplace_back(each->first, *each->second.folder);
  }
  return surplus;
}

}  // namespace quire
