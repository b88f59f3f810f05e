#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// SentencePiece's compiled table of what characters and short runs of them are written as (its
/// `precompiled_charsmap`): the length of a double array, the array, and the texts that its leaves point at, each with
/// a zero byte behind it.
class Charsmap {
 public:
  /// One without entries.
  Charsmap() = default;
  /// Throws Error when the bytes are no such table.
  explicit Charsmap(std::string_view bytes);

  bool is_empty() const { return units_.empty(); }

  struct Match {
    size_t length = 0;      // bytes of the text that the entry stands for; 0: there is none
    std::string_view text;  // what they are written as
  };
  /// The longest entry that the text (valid UTF-8) begins with: SentencePiece's way.
  Match Longest(std::string_view text) const;
  /// The shortest one, which is that of Hugging Face's tokenizers; none lies behind a zero byte.
  Match Shortest(std::string_view text) const;

 private:
  /// Calls `found` with each entry from the shortest on, until it says that it has seen enough.
  template <class Found>
  void Walk(std::string_view text, const Found& found) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace quire
