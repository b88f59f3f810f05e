#include "coordinator/text/tokenizer/sentencepiece_normalizer.h"

#include <algorithm>

#include "coordinator/text/tokenizer/growing_text.h"
#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/utf8.h"

namespace quire {

SentencePieceNormalizer::SentencePieceNormalizer(const normalize::SentencePiece& rules)
    : rules_(rules),
      charsmap_(rules.charsmap),
      user_defined_({rules_.user_defined.begin(), rules_.user_defined.end()}) {}

/// Returns, for each byte of the text, the length of the longest user-defined piece that begins there; 0: no such piece
/// begins there. The list is empty when the model has no user-defined pieces.
std::vector<size_t> SentencePieceNormalizer::UserDefinedLengths(std::string_view text) const {
  if (rules_.user_defined.empty()) return {};
  std::vector<size_t> lengths(text.size(), 0);
  uint32_t state = TextFinder::kNothing;
  for (size_t at = text.size(); at-- > 0;) {
    state = user_defined_.Before(text[at], state);
    if (const int32_t piece = user_defined_.Longest(state); piece >= 0)
      lengths[at] = rules_.user_defined[static_cast<size_t>(piece)].size();
  }
  return lengths;
}

Charsmap::Match SentencePieceNormalizer::Next(std::string_view text, size_t user_defined) const {
  if (rules_.user_defined.empty() && charsmap_.is_empty()) {  // everything but spaces stays unchanged
    const size_t run = std::max<size_t>(1, std::min(text.size(), text.find(' ')));
    return {run, text.substr(0, run)};
  }
  if (user_defined > 0) return {user_defined, text.substr(0, user_defined)};
  if (const Charsmap::Match entry = charsmap_.Longest(text); entry.length > 0) return entry;
  const size_t length = NextUtf8(text).length;
  return {length, text.substr(0, length)};
}

std::string SentencePieceNormalizer::Apply(std::string_view text, size_t max_bytes) const {
  const bool trims = rules_.remove_extra_whitespaces;
  const std::string_view space = rules_.escape_whitespaces ? Metaspace::kMark : std::string_view(" ");
  const std::vector<size_t> user_defined = UserDefinedLengths(text);
  const char* const begin = text.data();
  const auto next_of = [&](std::string_view rest) {
    return Next(rest, user_defined.empty() ? 0 : user_defined[static_cast<size_t>(rest.data() - begin)]);
  };
  while (trims && !text.empty()) {
    const Charsmap::Match first = next_of(text);
    if (first.text != " ") break;
    text.remove_prefix(first.length);
  }
  if (text.empty()) return {};
  GrowingText out(max_bytes);
  if (rules_.add_dummy_prefix && !rules_.whitespace_as_suffix) out.Append(space);
  bool after_space = trims;
  while (!text.empty()) {
    const Charsmap::Match next = next_of(text);
    text.remove_prefix(next.length);
    std::string_view written = next.text;
    while (after_space && written.starts_with(' ')) written.remove_prefix(1);
    if (!written.empty()) after_space = trims && written.ends_with(' ');
    while (!written.empty()) {
      const size_t plain = std::min(written.size(), written.find(' '));
      out.Append(written.substr(0, plain));
      written.remove_prefix(plain);
      if (written.empty()) break;
      out.Append(space);
      written.remove_prefix(1);
    }
  }
  while (trims && out.EndsWith(space)) out.RemoveLast(space.size());
  if (rules_.add_dummy_prefix && rules_.whitespace_as_suffix) out.Append(space);
  return out.Take();
}

}  // namespace quire
