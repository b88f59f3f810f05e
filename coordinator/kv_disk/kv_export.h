#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "coordinator/kv_disk/kv_archive.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

/// The two lines of a space's description (KvFolder::DescriptionOf): the model's path for people, and the text from
/// which the blocks' keys are derived (BlockSeal). Both texts are empty when the description has another form.
struct SpaceDescription {
  std::string model, space;
  static SpaceDescription Of(const std::string& description);
  /// True when `wanted` is the model's path, its last part, or empty.
  bool IsOf(const std::string& wanted) const;
};

struct KvExportCounts {
  int64_t blocks = 0, states = 0, bytes = 0;  // written to the archive
  int64_t damaged = 0;                        // number of files that no server could use
  int64_t without_beginning = 0;              // number of files whose chain has no known beginning in the directory
};

/// Writes blocks and states to an archive, each after the blocks that precede it. `model`: writes only this model's
/// blocks; empty: all models' (SpaceDescription::IsOf). `pin`: writes only this pinned prompt's blocks; nullopt: all
/// blocks. Returns the counts. Throws Error when the folder has no such model or pin. Servers may use the directory
/// meanwhile.
KvExportCounts ExportBlocks(KvFolder& folder, const std::string& model, const std::optional<std::string>& pin,
                            KvArchiveWriter& archive);

}  // namespace quire
