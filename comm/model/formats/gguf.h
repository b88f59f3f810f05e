#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "comm/model/formats/tensor.h"

namespace quire {

/// One metadata value. Integers of every width become int64; a uint64 above int64's range is refused. Arrays of arrays
/// are refused.
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufFile {
  std::map<std::string, GgufValue> metadata;
  TensorMap tensors;  // row-major shapes [rows, cols]; the file has the dimensions in reverse order

  /// Returns the value of `key` as T. Throws Error with the key when it is missing or has another type.
  template <class T>
  const T& Get(const std::string& key) const;
  /// Returns a pointer to the value of `key`; null when the key is missing. Throws Error when it has another type.
  template <class T>
  const T* Find(const std::string& key) const;

  std::string path;
};

/// Reads GGUF versions 2 and 3. Checks all counts, lengths, offsets and products against the file's size before using
/// them. Tensors are views of `bytes`. Throws Error, which names the file (`path`) and the place in it.
GgufFile ReadGguf(std::span<const std::byte> bytes, const std::string& path);

}  // namespace quire
