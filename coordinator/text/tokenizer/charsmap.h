#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// SentencePiece's compiled table (`precompiled_charsmap`) of replacements for characters and short sequences. Its
/// layout: the length in bytes of the array (a number of 4 bytes, little-endian), the array (a double array of such
/// numbers), and the zero-terminated texts to which the array's leaves point.
class Charsmap {
 public:
  /// Makes a table without entries.
  Charsmap() = default;
  /// Reads a compiled table. Throws Error when the bytes are no valid table.
  explicit Charsmap(std::string_view bytes);

  bool is_empty() const { return units_.empty(); }

  struct Match {
    size_t length = 0;      // bytes of the text that the entry replaces; 0: no entry
    std::string_view text;  // the replacement
  };
  /// Returns the longest entry with which the text (valid UTF-8) begins, as SentencePiece does.
  Match Longest(std::string_view text) const;
  /// Returns the shortest entry with which the text begins, as Hugging Face's tokenizers do. The search stops at a zero
  /// byte, as theirs does.
  Match Shortest(std::string_view text) const;

 private:
  /// Calls `found` with each matching entry, shortest first, until it returns false.
  template <class Found>
  void Walk(std::string_view text, const Found& found) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace quire
