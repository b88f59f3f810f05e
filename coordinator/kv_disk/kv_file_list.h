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

/// The files of blocks in a directory, as far as this process knows, and their total size. The engine's thread asks
/// only Holds, num_files and num_bytes, and never waits while another thread looks through all files. All functions may
/// be called from any thread.
class KvFileList {
 public:
  /// Each file takes about 500 bytes of memory here.
  static constexpr int64_t kMostFiles = 1 << 18;

  struct File {
    const std::string* folder = nullptr;  // one of folders_
    int64_t bytes = 0;
    double used_seconds = 0;  // Unix time of the last use
  };

  /// `own_folder`: the folder whose files Holds looks for. At most `max_bytes` of files are wanted.
  KvFileList(std::string own_folder, int64_t max_bytes) : own_folder_(std::move(own_folder)), max_bytes_(max_bytes) {}

  /// True when the own folder has a file of this name. The file may be gone.
  bool Holds(const std::string& name) const;
  /// Replaces the list by these files.
  void Replace(std::vector<KvFolder::Entry> entries);
  /// Adds a file of the own folder, or replaces it.
  void Add(const std::string& name, int64_t bytes, double used_seconds);
  void Forget(const std::string& name);
  /// Returns the Unix time of a file's last use; nothing when the file is not known.
  std::optional<double> UseOf(const std::string& name) const;
  /// Sets the time of a file's last use, if the file is known.
  void SetUse(const std::string& name, double used_seconds);

  /// Returns the files to remove, with their folders, before a file of `bytes` bytes is added: the least recently used.
  /// Returns none while the file fits both limits. Otherwise the removal leaves a twentieth of both limits free, so
  /// that the next files fit, too.
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
  std::set<std::string> folders_;   // every folder that was ever seen
  Files files_;                     // by their names
  int64_t total_bytes_ = 0;         // total size of files_
  mutable std::mutex held_mutex_;   // guards held_, for a moment at a time
  std::unordered_set<std::string> held_;
  std::atomic<int64_t> num_files_{0}, num_bytes_{0};
};

}  // namespace quire
