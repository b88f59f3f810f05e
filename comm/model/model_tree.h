#pragma once

#include <string>
#include <vector>

#include "comm/base/regular_file.h"

namespace quire {

/// The files of an HF directory. Links are followed as far as the model's own tree: its directory and, for a snapshot
/// in the Hugging Face cache (.../models--ORG--NAME/snapshots/REVISION), the `blobs` folder of the same model, which is
/// where the cache's links lead. What leads anywhere else is refused: a link named chat_template.jinja in a downloaded
/// model could otherwise have any file of the user shown to clients.
class ModelTree {
 public:
  /// Throws Error when there is no such directory.
  explicit ModelTree(const std::string& directory);

  /// Whether anything has that name in the directory, be it a link to nowhere.
  bool Has(const std::string& name) const;
  std::string PathOf(const std::string& name) const;

  /// Throws Error, with the path, when the file is missing, no regular file, or outside of the tree.
  RegularFile Open(const std::string& name) const;
  std::string ReadText(const std::string& name, size_t max_bytes) const;

 private:
  std::string directory_;           // as it was named
  std::vector<std::string> roots_;  // real paths, each with a slash at its end
};

}  // namespace quire
