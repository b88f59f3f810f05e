#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

/// The files of blocks in a directory, as far as this process knows them, and their total size. The engine's thread
/// calls only Holds, num_files and num_bytes, and never waits while another thread looks through all files. Any thread
/// may call all functions.
class KvFileList {
 public:
  /// The most files in the list; each takes about 500 bytes of memory.
  static constexpr int64_t kMostFiles = 1 << 18;

  struct File {
    const std::string* folder = nullptr;  // one of folders_
    int64_t bytes = 0;
    double used_seconds = 0;  // Unix time of the last use
  };

  /// `own_folder`: the folder in which Holds looks for files. `max_bytes`: the total size that all files should not
  /// exceed.
  KvFileList(std::string own_folder, int64_t max_bytes) : own_folder_(std::move(own_folder)), max_bytes_(max_bytes) {}

  /// True when the list has a file of this name in the own folder. The file itself may have been removed.
  bool Holds(const std::string& name) const;
  /// Replaces the list by `entries`.
  void Replace(std::vector<KvFolder::Entry> entries);
  /// Adds a file of the own folder, or replaces an earlier entry of its name. used_seconds: Unix time of the last use.
  void Add(const std::string& name, int64_t bytes, double used_seconds);
  void Forget(const std::string& name);
  /// Returns the Unix time of a file's last use; nothing when the list does not have the file.
  std::optional<double> UseOf(const std::string& name) const;
  /// Sets the time of a file's last use, if the list has the file.
  void SetUse(const std::string& name, double used_seconds);

  /// Returns the least recently used files, with their folders, that must be removed before a file of `bytes` bytes is
  /// added. Returns none while the file fits both limits. Otherwise the removal leaves a twentieth of both limits free,
  /// so that the next files fit, too.
  std::vector<std::pair<std::string, std::string>> Surplus(int64_t bytes) const;

  int64_t num_files() const { return num_files_; }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  using Files = std::unordered_map<std::string, File>;

  const std::string* Folder(const std::string& name) { return &*folders_.insert(name).first; }
  void Count();

  const std::string own_folder_;
  const int64_t max_bytes_;
  mutable std::mutex files_mutex_;  // guards the next three members
  std::set<std::string> folders_;   // every folder that was ever in the list
  Files files_;                     // the files by their names
  int64_t total_bytes_ = 0;         // total size of files_
  mutable std::mutex held_mutex_;   // guards held_; threads hold it only for moments
  std::unordered_set<std::string> held_;
  std::atomic<int64_t> num_files_{0}, num_bytes_{0};
};

}  // namespace quire
