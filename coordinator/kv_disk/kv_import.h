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

/// Writes an unlocked archive's blocks and states to the directory, sealed and named under the directory's secret.
/// `model`: only this model's (SpaceDescription::IsOf). `max_bytes`: the most bytes that all files of blocks may have
/// afterwards. Reads the whole archive before it writes the first file. Throws Error when any part of the archive is
/// wrong, when it does not fit, or when it has nothing of the model. Servers may use the directory meanwhile.
KvImportCounts ImportBlocks(KvFolder& folder, KvArchiveReader& archive, const std::string& model, int64_t max_bytes);

}  // namespace quire
