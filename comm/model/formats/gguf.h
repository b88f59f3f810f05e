#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/model/formats/tensor.h"

namespace quire {

/// One metadata value. Integers of every width become int64 (uint64 above its range is refused); arrays are flat.
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufFile {
  std::map<std::string, GgufValue> metadata;
  TensorMap tensors;  // shapes in row-major order: [rows, cols], the reverse of the file's

  /// The value of `key` as T; throws Error naming the key when it is missing or of another kind.
  template <class T>
  const T& Get(const std::string& key) const;
  /// The same, or null when the key is missing.
  template <class T>
  const T* Find(const std::string& key) const;

  std::string path;
};

/// Reads GGUF version 2 and 3. All counts, lengths, offsets and products are checked against the file before use.
/// Tensors are views of `bytes`. Throws Error naming the file (`path`) and the place.
GgufFile ReadGguf(std::span<const std::byte> bytes, const std::string& path);

}  // namespace quire
