#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/formats/gguf.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

/// A file of a GGUF model that is split into parts. Its name is PREFIX-00002-of-00003.gguf.
struct GgufPart {
  std::string prefix;  // including the directory
  int64_t number = 0;  // counted from 1
  int64_t count = 0;

  std::string PathOf(int64_t part) const;
};

/// Parses the name of a part; returns nullopt for any other name.
std::optional<GgufPart> GgufPartNamed(const std::string& path);

/// Reads a GGUF model: a single file, or all parts when `path` is the first part. Appends the mapped files, of which
/// the tensors are views, to `files`. Throws Error, which names the part that is missing, belongs to another model, or
/// is not the first.
GgufFile ReadGgufParts(const std::string& path, std::vector<MappedFile>& files);

/// Returns the paths of all files of a GGUF model.
std::vector<std::string> GgufPaths(const std::string& path);

}  // namespace quire
