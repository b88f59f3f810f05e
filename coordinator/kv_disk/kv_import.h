#pragma once

#include <cstdint>
#include <string>

#include "coordinator/kv_disk/kv_archive.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

struct KvImportCounts {
  int64_t blocks = 0, states = 0, bytes = 0;  // written to the directory; bytes of their files
  int64_t known = 0;                          // blocks and states that the directory had already
};

/// Writes an unlocked archive's blocks and states to the directory, sealed and named under its secret. `model`: only
/// those of this model (SpaceDescription::IsOf). `max_bytes`: the most bytes that all files of blocks may have then.
/// Reads the whole archive before the first file is written, and throws Error when any part of it is not right, does
/// not fit, or when it has nothing of the model. Servers may use the directory meanwhile.
KvImportCounts ImportBlocks(KvFolder& folder, KvArchiveReader& archive, const std::string& model, int64_t max_bytes);

}  // namespace quire
