#include "coordinator/text/tokenizer/added_tokens.h"

#include "coordinator/text/characters.h"
#include "coordinator/text/tokenizer/encode_bounds.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kBytesBetweenStops = 64 << 10;

}  // namespace

/// Control tokens have a finder of their own, because their search must start again after untrusted bytes.
AddedTokenFinder::AddedTokenFinder(const std::vector<Entry>& entries) {
  std::vector<std::string_view> plain, control;
  for (const Entry& entry : entries) {
    (entry.token->special ? control : plain).push_back(entry.text);
    (entry.token->special ? control_ : plain_).push_back(known_.size());
    known_.push_back({entry.text.size(), entry.token});
  }
  plain_finder_ = TextFinder(plain);
  control_finder_ = TextFinder(control);
}

/// Returns the longer match of both finders; if both are equally long, the token that was listed first; null when there
/// is no match.
const AddedTokenFinder::Known* AddedTokenFinder::Longer(int32_t plain, int32_t control) const {
  const Known* one = plain < 0 ? nullptr : &known_[plain_[static_cast<size_t>(plain)]];
  const Known* other = control < 0 ? nullptr : &known_[control_[static_cast<size_t>(control)]];
  if (one == nullptr || other == nullptr) return one == nullptr ? other : one;
  if (one->length != other->length) return one->length > other->length ? one : other;
  return one < other ? one : other;
}

std::vector<AddedTokenFinder::Found> AddedTokenFinder::FindAll(std::string_view text, const MarkedText* marks,
                                                               const std::stop_token& stop) const {
  std::vector<Found> all;
  if (known_.empty()) return all;
  uint32_t plain = TextFinder::kNothing, control = TextFinder::kNothing;
  for (size_t at = text.size(); at-- > 0;) {
    if (at % kBytesBetweenStops == 0) CheckStop(stop);
    const bool trusted = marks == nullptr || marks->marks[at] != MarkedText::kFromUser;
    plain = plain_finder_.Before(text[at], plain);
    control = trusted ? control_finder_.Before(text[at], control) : TextFinder::kNothing;
    const Known* found = Longer(plain_finder_.Longest(plain), control_finder_.Longest(control));
    if (found != nullptr) all.push_back({at, found->length, found->token});
  }
  return all;
}

std::vector<TextPart> CutAtTokens(std::string_view text, const AddedTokenFinder& tokens, const MarkedText* marks,
                                  const std::stop_token& stop) {
  std::vector<TextPart> parts;
  std::vector<AddedTokenFinder::Found> all = tokens.FindAll(text, marks, stop);
  size_t from = 0;  // text before this offset is done
  for (size_t at = 0; !all.empty();) {
    const AddedTokenFinder::Found found = all.back();
    all.pop_back();
    if (found.begin < at) continue;
    size_t begin = found.begin, end = found.begin + found.length;
    at = end;
    const bool inside_word = (begin > 0 && IsWordCharacter(CharacterAt(text, PreviousCharacter(text, begin)))) ||
                             (end < text.size() && IsWordCharacter(CharacterAt(text, end)));
    if (found.token->single_word && inside_word) continue;  // as in HF, no shorter token is tried at this position
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
