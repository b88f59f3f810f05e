#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// How vocabularies in SentencePiece's manner write text: spaces as "▁" (U+2581), most often with one more in front,
/// and characters without a token of their own as bytes, "<0x0A>", if at all.
struct Metaspace {
  static constexpr std::string_view kMark = "\u2581";

  bool has_bytes = true;  // "<0x0A>" stands for a byte, and not for its six characters
  enum class Front {
    kShown,
    kSpaceDropped,  // a space that decoded text begins with is not shown: it was put in front
    kMarksDropped   // all spaces of the first token are not
  };
  Front front = Front::kShown;
};

/// `text` with marks for spaces; in_front: and with one more, unless it begins with one.
std::string WriteMarks(std::string_view text, bool in_front);

/// Appends text that was written with marks in pieces that begin where words do: at every mark, or at the first of
/// several.
void CutAtMarks(std::string_view text, bool every_mark, std::vector<std::string_view>& pieces);

/// The token's text, with spaces for marks.
std::string ReadMarks(std::string_view token);

/// The byte that "<0x0A>" stands for; nothing for other tokens.
std::optional<unsigned char> ByteOfToken(std::string_view token);

}  // namespace quire
