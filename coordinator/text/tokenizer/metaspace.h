#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// How SentencePiece-style vocabularies spell text: each space is the mark "▁" (U+2581), and usually one more mark
/// stands in front of the text. If has_bytes, characters without a token are spelt by bytes such as "<0x0A>".
struct Metaspace {
  static constexpr std::string_view kMark = "\u2581";

  bool has_bytes = true;  // "<0x0A>" means a byte, not six characters
  enum class Front {
    kShown,
    kSpaceDropped,  // decoded text loses one leading space, which the encoder added
    kMarksDropped   // decoded text loses all spaces of the first token
  };
  Front front = Front::kShown;
};

/// Returns `text` with marks for spaces. in_front: one more mark in front, unless the text begins with a space or a
/// mark, or is empty.
std::string WriteMarks(std::string_view text, bool in_front);

/// Splits text with marks into pieces: at every mark (every_mark), or only at the first mark of each run.
void CutAtMarks(std::string_view text, bool every_mark, std::vector<std::string_view>& pieces);

/// Returns the token's text with a space for each mark.
std::string ReadMarks(std::string_view token);

/// Returns the byte that a token such as "<0x0A>" means; nullopt for other tokens.
std::optional<unsigned char> ByteOfToken(std::string_view token);

}  // namespace quire
