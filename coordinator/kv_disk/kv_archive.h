#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/base/regular_file.h"
#include "comm/base/types.h"

namespace quire {

/// The key with which an archive is sealed: a passphrase or a secret.
struct ArchiveKey {
  enum class Kind : uint8_t { kPassphrase = 1, kSecret = 2 };  // kSecret: the secret of a --kv-disk directory
  Kind kind;
  std::string text;
};

/// One record of an archive. Records do not use hashes as names, because hashes depend on a directory's secret.
struct ArchiveRecord {
  enum class Kind : uint8_t {
    kEnd,    // the last record
    kSpace,  // data: the description of a space, to which the next records belong (KvFolder::MakeSpace)
    kRoot,   // data: the PrefixOrigin of a chain
    kBlock,  // a block with its tokens, after record `after`, which is a root or a block
    kState,  // the state after the block of record `after`
  };
  Kind kind = Kind::kEnd;
  uint32_t after = 0;  // number of a root or of a block; each space numbers them from 0
  std::vector<TokenId> tokens;
  std::vector<std::byte> data;
};

/// Writes an archive: a new file with mode 0600. The records are encrypted and authenticated in their order. Throws
/// Error, which names the path and the system's reason.
class KvArchiveWriter {
 public:
  KvArchiveWriter(const std::string& path, const ArchiveKey& key);
  /// Removes the file unless Finish was called.
  ~KvArchiveWriter();
  KvArchiveWriter(const KvArchiveWriter&) = delete;
  KvArchiveWriter& operator=(const KvArchiveWriter&) = delete;

  void Add(const ArchiveRecord& record);
  /// Adds the last record and syncs the file.
  void Finish();

 private:
  void Put(std::span<const unsigned char> bytes);

  const std::string path_;
  Descriptor file_;
  std::vector<unsigned char> state_;  // state of libsodium's stream
  bool finished_ = false;
};

/// Reads an archive that anybody may have written. A record takes at most three times its bytes of memory. The first
/// record, which proves that the file was sealed with the key, has at most 1 MiB, and each later record at most
/// KvFolder::kMostBlockBytes.
class KvArchiveReader {
 public:
  explicit KvArchiveReader(const std::string& path);
  ~KvArchiveReader();
  KvArchiveReader(const KvArchiveReader&) = delete;
  KvArchiveReader& operator=(const KvArchiveReader&) = delete;
  ArchiveKey::Kind key_kind() const { return kind_; }

  /// Sets the key, which takes about a second for a passphrase.
  void Unlock(const ArchiveKey& key);
  /// Calls `each` for all records except the last, in order. Throws Error when no KvArchiveWriter with the key wrote
  /// the file, or when bytes were changed, removed or added; the records before the wrong bytes were right.
  void ReadAll(const std::function<void(ArchiveRecord)>& each);

 private:
  [[noreturn]] void Refuse(const std::string& why) const;
  void Get(std::span<unsigned char> bytes);

  RegularFile file_;
  ArchiveKey::Kind kind_;
  std::vector<unsigned char> beginning_, key_;
  size_t left_ = 0;  // number of the file's bytes that have not been read
};

}  // namespace quire
