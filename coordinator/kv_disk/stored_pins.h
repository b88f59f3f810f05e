#pragma once

#include <string>
#include <vector>

#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

/// A pinned prompt that stays pinned when the server restarts.
struct StoredPin {
  std::string name;  // 1 to kMostNameBytes bytes
  std::string salt;
  std::vector<TokenId> tokens;
  double expires_seconds = 0;  // Unix time
  int replica = 0;

  static constexpr size_t kMostNameBytes = 128;
};

/// The pins of one space of blocks, with a sealed file for each pin in the space's folder.
class StoredPins {
 public:
  /// The most pins; further pins are refused.
  static constexpr size_t kMost = 1024;

  StoredPins(KvFolder& folder, const BlockSeal& seal) : folder_(folder), seal_(seal) {}

  /// Returns all pins that have not expired at `now`, a Unix time, sorted by name. Removes the files of expired pins
  /// and invalid files.
  std::vector<StoredPin> List(double now);
  /// Writes a pin, and replaces an earlier pin of its name. Throws Error when the disk refuses the pin, or when there
  /// are already kMost other pins.
  void Write(const StoredPin& pin);
  void Remove(const std::string& name);

 private:
  std::string FileOf(const std::string& name) const;

  KvFolder& folder_;
  const BlockSeal& seal_;
};

}  // namespace quire
