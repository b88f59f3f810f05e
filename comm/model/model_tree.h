#pragma once

#include <string>
#include <vector>

#include "comm/base/regular_file.h"

namespace quire {

/// The files of an HF directory. Links may lead only inside the model's own tree. The tree is the directory and, for a
/// snapshot in the Hugging Face cache (.../models--ORG--NAME/snapshots/REVISION), the `blobs` folder of the same model.
/// Links to other places are refused, because a link Links to other places are refused, because a link named
/// chat_template.jinja in a downloaded model could otherwise show any file of the user to clients.
class ModelTree {
 public:
  /// Throws Error when the directory does not exist.
  explicit ModelTree(const std::string& directory);

  /// True when the directory has an entry of this name; a broken link counts, too.
  bool Has(const std::string& name) const;
  std::string PathOf(const std::string& name) const;

  /// Throws Error, which names the path, when the file is missing, is not a regular file, or is outside of the tree.
  RegularFile Open(const std::string& name) const;
  std::string ReadText(const std::string& name, size_t max_bytes) const;

 private:
  std::string directory_;           // path of the directory as the caller wrote it
  std::vector<std::string> roots_;  // real paths of the allowed directories, each with a slash at its end
};

}  // namespace quire
