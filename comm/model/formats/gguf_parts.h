#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/formats/gguf.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

/// One of the files that a large GGUF model is split into, as its name says: PREFIX-00002-of-00003.gguf.
struct GgufPart {
  std::string prefix;  // with the directory
  int64_t number = 0;  // from 1 on
  int64_t count = 0;

  std::string PathOf(int64_t part) const;
};

/// What the name says; nothing for the name of a whole file.
std::optional<GgufPart> GgufPartNamed(const std::string& path);

/// Reads a GGUF model: one file, or all the parts of which the first was named. `files` keeps what the tensors are
/// views of. Throws Error naming the part that is missing, is another model's, or is not the first.
GgufFile ReadGgufParts(const std::string& path, std::vector<MappedFile>& files);

/// The files that such a model is read from.
std::vector<std::string> GgufPaths(const std::string& path);

}  // namespace quire
