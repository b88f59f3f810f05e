#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// The directory of stored blocks, which several servers may share. The directory has the file `secret`, and a folder
/// for each space of blocks with one file for each block. A file appears as a whole or not at all: it is written under
/// another name, synced and renamed. The functions do not follow symbolic links, and several threads may call all of
/// them at the same time. The functions throw Error, which names the path and the system's reason.
class KvFolder {
 public:
  enum Existence { kMayBeMade, kMustExist };
  /// With kMayBeMade, makes the directory (mode 0700) and in it the secret (mode 0600) if they are missing. Throws
  /// Error for a directory of another user, and for a directory that other users may enter.
  explicit KvFolder(const std::string& path, Existence existence = kMayBeMade);

  const std::string& path() const { return path_; }
  const std::string& secret() const { return secret_; }

  /// Makes the folder of a space if it is missing, and writes its description if it has another one or none.
  void MakeSpace(const std::string& folder, const std::string& description);
  /// Makes the folder of a space if it is missing, and writes the description if the folder has none.
  void AddSpace(const std::string& folder, const std::string& description);
  /// Returns the description of a space; empty when the folder has none.
  std::string DescriptionOf(const std::string& folder) const;

  void Write(const std::string& folder, const std::string& name, std::span<const std::byte> content);
  /// Reads a file and records its use. Returns nullopt when the file is missing. Removes a file that does not have
  /// exactly `bytes` bytes.
  std::optional<std::vector<std::byte>> Read(const std::string& folder, const std::string& name, size_t bytes) const;
  /// Sets the time of a file's last use to now. Does nothing if the file is missing.
  void NoteUse(const std::string& folder, const std::string& name);
  /// The largest size, in bytes, of a block's file. Larger files are not read.
  static constexpr int64_t kMostBlockBytes = int64_t{1} << 30;
  /// Reads a file without recording its use. Returns nullopt when the file is missing. Throws Error for a larger file
  /// than `most` bytes.
  std::optional<std::vector<std::byte>> Peek(const std::string& folder, const std::string& name,
                                             size_t most = kMostBlockBytes) const;
  /// Removes a file. Does nothing if the file is missing.
  void Remove(const std::string& folder, const std::string& name);

  struct Entry {
    std::string folder, name;
    int64_t bytes = 0;
    double used_seconds = 0;  // Unix time of the last use
  };
  /// Returns the names of the folder's files that end with `end`.
  std::vector<std::string> NamesEndingWith(const std::string& folder, std::string_view end) const;
  /// Returns the files of all blocks. Removes unfinished files that are older than an hour, because the servers that
  /// wrote them have ended.
  std::vector<Entry> List();

 private:
  Descriptor OpenFolder(const std::string& folder) const;
  void MakeFolder(const std::string& folder);
  std::string ReadSecret() const;
  void MakeSecret() const;

  std::string path_, secret_;
  Descriptor directory_;
};

/// True for names that files of blocks can have.
bool IsBlockFile(const std::string& name);

}  // namespace quire
