#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"

namespace quire {

/// A LoRA adapter as an operator's request found it on disk.
struct FoundAdapter {
  std::string path;  // without links
  std::string fingerprint;
  int64_t rank = 0, bytes = 0;  // the largest rank of its matrices; its bytes with 32-bit numbers
  uint64_t file_bytes = 0;
};

/// The directories from which operators may load adapters (lora.dirs).
class AdapterDirectories {
 public:
  /// Takes the directories of lora.dirs. Throws Error for a path that is no directory.
  explicit AdapterDirectories(const Topology::Lora& lora);

  /// Opens an adapter for the model `base`: follows links and reads the whole adapter. Throws Error when the path leads
  /// out of the directories, or the adapter does not fit the model.
  FoundAdapter Open(const std::string& path, const ModelFiles& base) const;

 private:
  const Topology::Lora lora_;
  std::vector<std::filesystem::path> dirs_;  // without links
};

/// Throws Error when the adapter's rank is above `most`; 0 means no limit.
void CheckAdapterRank(int64_t rank, int most, const std::string& path);

}  // namespace quire
