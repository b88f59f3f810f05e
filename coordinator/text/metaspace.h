#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// How vocabularies in SentencePiece's manner write text: spaces as "▁" (U+2581), most often with one more in front,
/// and characters without a token of their own as bytes, "<0x0A>".
struct Metaspace {
  static constexpr std::string_view kMark = "\u2581";

  enum class Front {
    kNone,
    kText,   // in front of the text, unless it begins with a space
    kPiece,  // in front of every piece between added tokens, unless it begins with one
    kAlways  // in front of every piece, whatever it begins with
  };
  Front front = Front::kNone;
  /// Tokens that are looked for in the normalised text see the marks. Without, spaces become marks after that.
  bool normalizes = true;
  /// Every mark begins a word; without, merges may join several.
  bool every_mark_cuts = false;
  /// A space that decoded text begins with is not shown: it was put in front.
  bool drops_first_space = false;
};

/// `text`, of which it is the beginning if is_first, with marks for spaces.
std::string WriteMarks(std::string_view text, const Metaspace& metaspace, bool is_first);

/// Text that was written with marks in pieces that begin where words do: at every mark, or at the first of several.
std::vector<std::string_view> CutAtMarks(std::string_view text, bool every_mark);

/// The token's text, with spaces for marks.
std::string ReadMarks(std::string_view token);

/// The byte that "<0x0A>" stands for; nothing for other tokens.
std::optional<unsigned char> ByteOfToken(std::string_view token);

}  // namespace quire
