#include "coordinator/text/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/text/byte_level.h"
#include "coordinator/text/nfc.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxPatterns = 32;
constexpr size_t kMaxAddedBytes = 1024;  // of an added token, which is looked for at every place of a text

bool IsSpace(std::string_view text, size_t at) {
  const Utf8Step step = NextUtf8(text.substr(at));
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(step.character));
  return (step.character >= 0x09 && step.character <= 0x0d) || step.character == 0x85 ||
         category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

size_t PreviousCharacter(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

/// Unicode's word characters: letters, marks, decimal digits, connectors and joiners. Circled and squared letters count
/// as letters although their category is that of symbols.
bool IsWordCharacter(std::string_view text, size_t at) {
  const Utf8Step step = NextUtf8(text.substr(at));
  const auto among = [&](char32_t first, char32_t last) { return step.character >= first && step.character <= last; };
  if (among(0x200c, 0x200d) || among(0x24b6, 0x24e9) || among(0x1f130, 0x1f149) || among(0x1f150, 0x1f169) ||
      among(0x1f170, 0x1f189)) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(step.character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace

Tokenizer::Tokenizer(TokenizerData data) : data_(std::move(data)), special_(data_.tokens.size(), false) {
  AddVocabulary();
  AddMerges();
  AddAddedTokens();
  for (const auto* tokens : {&data_.prefix, &data_.suffix}) {
    for (const TokenId token : *tokens) {
      if (token < 0 || token >= vocab_size())
        Fail("tokenizer: token {}, which goes around prompts, is not in the vocabulary of {}", token, vocab_size());
    }
  }
  AddSplitters();
  MeasureTokens();
}

void Tokenizer::AddVocabulary() {
  bytes_.resize(data_.tokens.size());
  for (TokenId token = 0; token < vocab_size(); ++token)
    data_.metaspace ? AddTextToken(token) : AddByteLevelToken(token);
  if (!data_.metaspace) return;
  for (int byte = 0; byte < 256; ++byte) {
    if (!bpe_.HasToken(static_cast<unsigned char>(byte)))
      Fail("tokenizer: there is no token <0x{:02X}>; vocabularies without one for every byte are not supported", byte);
  }
}

void Tokenizer::AddByteLevelToken(TokenId token) {
  const std::string& text = data_.tokens[static_cast<size_t>(token)];
  const auto bytes = AlphabetToBytes(text);
  bytes_[static_cast<size_t>(token)] = bytes ? *bytes : text;
  if (bytes && bytes->size() == 1) bpe_.SetByteToken(static_cast<unsigned char>((*bytes)[0]), token);
  if (bytes && data_.whole_words_first) whole_words_.emplace(*bytes, token);
}

void Tokenizer::AddTextToken(TokenId token) {
  const std::string& text = data_.tokens[static_cast<size_t>(token)];
  if (const auto byte = ByteOfToken(text)) {
    bpe_.SetByteToken(*byte, token);
    bytes_[static_cast<size_t>(token)] = std::string(1, static_cast<char>(*byte));
    return;
  }
  bytes_[static_cast<size_t>(token)] = ReadMarks(text);
  if (text.empty()) return;
  const Utf8Step first = NextUtf8(text);
  if (first.valid && first.length == text.size()) bpe_.SetCharacterToken(first.character, token);
}

void Tokenizer::AddMerges() {
  std::unordered_map<std::string, TokenId> ids;  // by the vocabulary's spelling
  for (size_t id = 0; id < data_.tokens.size(); ++id) ids.emplace(data_.tokens[id], static_cast<TokenId>(id));
  for (const auto& [left, right, rank] : data_.merges) {
    const auto a = ids.find(left), b = ids.find(right), merged = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || merged == ids.end()) {
      Fail("tokenizer: merge of \"{}\" and \"{}\" names a token that is not in the vocabulary", left.substr(0, 50),
           right.substr(0, 50));
    }
    bpe_.AddMerge(a->second, b->second, merged->second, rank);
    const bool marks_meet = right.starts_with(Metaspace::kMark) && !left.ends_with(Metaspace::kMark);
    merges_cross_words_ = merges_cross_words_ || marks_meet;
  }
}

void Tokenizer::AddAddedTokens() {
  for (const AddedToken& token : data_.added) {
    if (token.text.empty()) continue;
    if (token.text.size() > kMaxAddedBytes)
      Fail("tokenizer: added token {} has {} bytes, at most {} are allowed", token.id, token.text.size(),
           kMaxAddedBytes);
    const bool normalized = token.normalized && !token.special;
    std::string storage;
    const std::string_view looked_for = normalized ? Normalize(token.text, true, storage) : token.text;
    (normalized ? in_normalized_ : as_written_).Insert(looked_for, token);
    // As HF shows it: with the space that the normalizer puts in front.
    bytes_[static_cast<size_t>(token.id)] = normalized && data_.metaspace ? ReadMarks(looked_for) : token.text;
    special_[static_cast<size_t>(token.id)] = token.special;
  }
}

void Tokenizer::AddSplitters() {
  const auto& patterns = data_.split_patterns;
  if (patterns.size() > kMaxPatterns)
    Fail("tokenizer: {} patterns that split text, at most {} are allowed", patterns.size(), kMaxPatterns);
  for (size_t i = 0; i < patterns.size(); ++i) {
    try {
      splitters_.emplace_back(patterns[i]);
    } catch (const Error& error) {
      Fail("tokenizer: pattern {} of {}, \"{}\": {}", i + 1, patterns.size(), ValidUtf8(patterns[i].substr(0, 60)),
           error.what());
    }
  }
}

/// Spaces that an added token strips cost nothing, however many they are. So do bytes that no token stands for, which
/// SurelyExceeds leaves out; but after normalisation nobody knows which they are.
void Tokenizer::MeasureTokens() {
  for (const std::string& bytes : bytes_) longest_token_ = std::max(longest_token_, bytes.size());
  bool drops_bytes = false;
  for (int byte = 0; byte <= 0xf4; ++byte)  // those of UTF-8
    drops_bytes = drops_bytes || (byte != 0xc0 && byte != 0xc1 && !bpe_.HasToken(static_cast<unsigned char>(byte)));
  any_length_ = (drops_bytes && data_.nfc) || std::ranges::any_of(data_.added, [](const AddedToken& token) {
                  return token.left_strip || token.right_strip;
                });
}

bool Tokenizer::SurelyExceeds(std::string_view text, size_t num_tokens) const {
  // No text of valid UTF-8 becomes shorter than a third of itself by composition, or by marks that count as spaces.
  constexpr size_t kShrinking = 3;
  const size_t per_token = longest_token_ * (data_.nfc ? kShrinking : 1) * (data_.metaspace ? kShrinking : 1);
  if (any_length_ || text.size() / std::max<size_t>(1, per_token) <= num_tokens) return false;
  const auto kept = static_cast<size_t>(
      std::ranges::count_if(text, [&](char c) { return bpe_.HasToken(static_cast<unsigned char>(c)); }));
  return kept / per_token > num_tokens;
}

std::string_view Tokenizer::Bytes(TokenId token) const {
  if (token < 0 || token >= vocab_size()) return {};
  return bytes_[static_cast<size_t>(token)];
}

std::vector<Tokenizer::Piece> Tokenizer::Cut(std::string_view text, const TokenTrie& tokens, const MarkedText* marks) {
  std::vector<Piece> pieces;
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
    const bool inside_word = (begin > 0 && IsWordCharacter(text, PreviousCharacter(text, begin))) ||
                             (end < text.size() && IsWordCharacter(text, end));
    if (found.token->single_word && inside_word) continue;  // as in HF, no shorter token is looked for in its place
    while (found.token->left_strip && begin > from && IsSpace(text, PreviousCharacter(text, begin)))
      begin = PreviousCharacter(text, begin);
    while (found.token->right_strip && end < text.size() && IsSpace(text, end))
      end += NextUtf8(text.substr(end)).length;
    if (begin > from) pieces.push_back({text.substr(from, begin - from), nullptr});
    pieces.push_back({text.substr(begin, end - begin), found.token});
    at = from = end;
  }
  if (from < text.size()) pieces.push_back({text.substr(from), nullptr});
  return pieces;
}

std::vector<TokenId> Tokenizer::Encode(const MarkedText& marked, const EncodeBounds& bounds) const {
  std::vector<TokenId> out;
  std::optional<SplitBudget> own;
  Work work{bounds, bounds.splitting ? *bounds.splitting : own.emplace(marked.text.size(), std::nullopt, bounds.stop),
            out};
  for (const Piece& piece : Cut(marked.text, as_written_, &marked)) {
    if (piece.token != nullptr) {
      out.push_back(piece.token->id);
    } else {
      EncodeBetween(piece.text, piece.text.data() == marked.text.data(), work);
    }
  }
  return out;
}

std::string_view Tokenizer::Normalize(std::string_view text, bool is_first, std::string& storage) const {
  if (data_.nfc) text = storage = ToNfc(text);
  if (data_.metaspace && data_.metaspace->normalizes) text = storage = WriteMarks(text, *data_.metaspace, is_first);
  return text;
}

void Tokenizer::EncodeBetween(std::string_view text, bool is_first, Work& work) const {
  // The matcher trusts it. A template or a token that is not UTF-8 may have got in, or cut a character.
  if (!IsValidUtf8(text)) Fail("tokenizer: the text is not valid UTF-8");
  std::string storage;
  const std::string_view normalized = Normalize(text, is_first, storage);
  for (const Piece& piece : Cut(normalized, in_normalized_, nullptr)) {
    if (piece.token != nullptr) {
      work.out.push_back(piece.token->id);
    } else {
      EncodeWords(piece.text, is_first && piece.text.data() == normalized.data(), work);
    }
  }
}

std::vector<TokenId> Tokenizer::EncodePrompt(std::string_view text, bool add_special_tokens,
                                             const EncodeBounds& bounds) const {
  std::vector<TokenId> tokens = Encode(MarkedText(text, MarkedText::kTrusted), bounds);
  if (add_special_tokens) {
    tokens.insert(tokens.begin(), data_.prefix.begin(), data_.prefix.end());
    tokens.insert(tokens.end(), data_.suffix.begin(), data_.suffix.end());
  }
  return tokens;
}

void Tokenizer::EncodeWords(std::string_view text, bool is_first, Work& work) const {
  std::string storage;
  if (data_.metaspace) {
    if (!data_.metaspace->normalizes) text = storage = WriteMarks(text, *data_.metaspace, is_first);
    // No merge joins what the cuts take apart, so they change nothing but the time.
    const bool whole = merges_cross_words_ && !data_.metaspace->every_mark_cuts;
    return EncodePieces(whole ? std::vector{text} : CutAtMarks(text, data_.metaspace->every_mark_cuts), work);
  }
  if (data_.add_prefix_space && !text.starts_with(' ')) {
    storage = std::string(text).insert(0, 1, ' ');
    text = storage;
  }
  std::vector<std::string_view> pieces = {text}, next;
  for (const Splitter& splitter : splitters_) {
    next.clear();
    for (const std::string_view piece : pieces) {
      CheckStop(work.bounds.stop);
      splitter.Split(piece, next, work.budget);
    }
    pieces.swap(next);
  }
  EncodePieces(pieces, work);
}

void Tokenizer::EncodePieces(const std::vector<std::string_view>& pieces, Work& work) const {
  for (const std::string_view piece : pieces) {
    CheckStop(work.bounds.stop);
    if (work.out.size() > work.bounds.max_tokens) throw TooManyTokens();
    if (data_.whole_words_first) {
      if (const auto it = whole_words_.find(std::string(piece)); it != whole_words_.end()) {
        work.out.push_back(it->second);
        continue;
      }
    }
    bpe_.Encode(piece, work.bounds.stop, work.out);
  }
  if (work.out.size() > work.bounds.max_tokens) throw TooManyTokens();
}

}  // namespace quire
