#pragma once

#include <cstdint>
#include <string>

#include "coordinator/kv_disk/kv_archive.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

struct KvImportCounts {
  int64_t blocks = 0, states = 0, bytes = 0;  // written to the directory: blocks, states, and the bytes of their files
  int64_t known = 0;                          // number of blocks and states that the directory already had
};

/// Writes the blocks and states of an unlocked archive to the directory. Files are encrypted and named with the
/// directory's secret. If `model` is not empty, only that model's blocks are written (SpaceDescription::IsOf).
/// `max_bytes`: the most bytes that all block files in the directory may have afterwards. The whole archive is read
/// before the first file is written. Throws Error if part of the archive is invalid, if the blocks do not fit, or if
/// the archive has nothing of the model. Servers may use the directory meanwhile.
KvImportCounts ImportBlocks(KvFolder& folder, KvArchiveReader& archive, const std::string& model, int64_t max_bytes);

}  // namespace quire
