#include "coordinator/text/added_tokens.h"

#include "coordinator/text/characters.h"
#include "coordinator/text/utf8.h"

namespace quire {

std::vector<TextPart> CutAtTokens(std::string_view text, const TokenTrie& tokens, const MarkedText* marks) {
  std::vector<TextPart> parts;
  size_t from = 0;  // text before this is cut
  size_t at = 0;
  const std::function<bool(const AddedToken&, size_t)> trusted = [&](const AddedToken& token, size_t length) {
    return marks == nullptr || !token.special || marks->IsTrusted(at, length);
  };
  while (at < text.size()) {
    const TokenTrie::Found found = tokens.Longest(text.substr(at), trusted);
    if (found.token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + found.length;
    at = end;
    const bool inside_word = (begin > 0 && IsWordCharacter(CharacterAt(text, PreviousCharacter(text, begin)))) ||
                             (end < text.size() && IsWordCharacter(CharacterAt(text, end)));
    if (found.token->single_word && inside_word) continue;  // as in HF, no shorter token is looked for in its place
    while (found.token->left_strip && begin > from && IsSpace(CharacterAt(text, PreviousCharacter(text, begin))))
      begin = PreviousCharacter(text, begin);
    while (found.token->right_strip && end < text.size() && IsSpace(CharacterAt(text, end)))
      end += NextUtf8(text.substr(end)).length;
    if (begin > from) parts.push_back({text.substr(from, begin - from), nullptr});
    parts.push_back({text.substr(begin, end - begin), found.token});
    at = from = end;
  }
  if (from < text.size()) parts.push_back({text.substr(from), nullptr});
  return parts;
}

}  // namespace quire
