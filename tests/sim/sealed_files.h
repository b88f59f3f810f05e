#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/kv_disk/block_seal.h"
#include "tests/sim/scenario.h"
#include "tests/sim/virtual_model.h"

namespace quire::sim {

/// The files of a store, encrypted and authenticated as the disk tier does it. In half of the runs the medium is bad:
/// files are lost, torn or changed, and reads return the file of another block, of another secret or of another model
/// (space). Such a read must be a miss, and a read of an unchanged file must not be a miss.
class SealedFiles {
 public:
  explicit SealedFiles(uint64_t seed);

  void Write(const StoredName& name, const std::vector<KvValue>& values);
  /// Returns the `count` values that were written under the name, or nothing. Removes a file that cannot be decrypted.
  /// Throws Failure when a file with wrong contents can be decrypted, or when an unchanged file cannot.
  std::optional<std::vector<KvValue>> Read(const StoredName& name, size_t count);
  bool Holds(const StoredName& name) const { return files_.contains(seal_.FileNameOf(name.hash, name.kind)); }

  int64_t num_lies = 0;  // reads that returned no file or another file than was written

 private:
  struct File {
    std::vector<std::byte> content;
    bool whole = true;  // false: the medium has only a part of what was written
  };
  std::vector<std::byte> Lie(const StoredName& name, size_t count, const std::vector<std::byte>& content);

  test::Random random_;
  bool is_bad_;
  BlockSeal seal_, other_secret_, other_space_;
  std::map<std::string, File> files_;
};

}  // namespace quire::sim
