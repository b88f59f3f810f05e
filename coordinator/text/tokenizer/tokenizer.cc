#include "coordinator/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/recent_words.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxAddedBytes = 1024;     // length of an added token, and of a token that templates insert
constexpr size_t kMaxAround = 64;           // tokens before or after every prompt
constexpr size_t kMaxTextBytes = 64 << 10;  // length of any token, which an answer may repeat

}  // namespace

Tokenizer::Tokenizer(TokenizerData data)
    : data_(std::move(data)),
      normalizer_(data_.normalizer),
      pre_tokenizer_(data_.pre_tokenizer),
      special_(data_.tokens.size(), false) {
  AddVocabulary();
  if (data_.unigram) {
    unigram_.emplace(*data_.unigram, data_.tokens);
  } else if (data_.word_piece) {
    word_piece_.emplace(*data_.word_piece, data_.tokens);
  } else {
    AddMerges();
  }
  AddAddedTokens();
  CheckAround();
  for (const auto& [name, text] :
       {std::pair{"beginning", &data_.bos_token}, {"end", &data_.eos_token}, {"padding", &data_.pad_token}}) {
    if (text->size() > kMaxAddedBytes)
      Fail("tokenizer: the token of {} has {} bytes, at most {} are allowed", name, text->size(), kMaxAddedBytes);
  }
  MeasureTokens();
}

void Tokenizer::CheckAround() const {
  std::vector<const std::vector<TokenId>*> around = {&data_.prefix, &data_.suffix};
  if (data_.pair) around.insert(around.end(), {&data_.pair->before, &data_.pair->between, &data_.pair->after});
  for (const auto* tokens : around) {
    if (tokens->size() > kMaxAround)
      Fail("tokenizer: {} tokens go around prompts, at most {} are allowed", tokens->size(), kMaxAround);
    for (const TokenId token : *tokens) {
      if (token < 0 || token >= vocab_size())
        Fail("tokenizer: token {}, which goes around prompts, is not in the vocabulary of {}", token, vocab_size());
    }
  }
}

void Tokenizer::AddVocabulary() {
  for (size_t id = 0; id < data_.tokens.size(); ++id) {
    if (data_.tokens[id].size() > kMaxTextBytes)
      Fail("tokenizer: token {} has {} bytes, at most {} are allowed", id, data_.tokens[id].size(), kMaxTextBytes);
  }
  bytes_.resize(data_.tokens.size());
  if (data_.word_piece) {
    for (size_t id = 0; id < bytes_.size(); ++id) bytes_[id] = TextOfPiece(*data_.word_piece, data_.tokens[id]);
    return;
  }
  for (TokenId token = 0; token < vocab_size(); ++token)
    data_.metaspace ? AddTextToken(token) : AddByteLevelToken(token);
  if (!data_.metaspace || data_.unigram) return;
  if (data_.unknown) {
    if (*data_.unknown < 0 || *data_.unknown >= vocab_size())
      Fail("tokenizer: the unknown token {} is not in the vocabulary of {}", *data_.unknown, vocab_size());
    return bpe_.SetUnknownToken(*data_.unknown, data_.fuses_unknown);
  }
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
  if (data_.whole_words_first) whole_words_.emplace(text, token);
  if (const auto byte = data_.metaspace->has_bytes ? ByteOfToken(text) : std::nullopt) {
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
  std::unordered_map<std::string_view, TokenId, KeyedHash> ids;  // keyed by the vocabulary's spelling
  for (size_t id = 0; id < data_.tokens.size(); ++id) ids.emplace(data_.tokens[id], static_cast<TokenId>(id));
  words_are_apart_ = data_.metaspace.has_value();
  for (const auto& [left, right, rank] : data_.merges) {
    const auto a = ids.find(left), b = ids.find(right), merged = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || merged == ids.end()) {
      Fail("tokenizer: merge of \"{}\" and \"{}\" names a token that is not in the vocabulary", left.substr(0, 50),
           right.substr(0, 50));
    }
    bpe_.AddMerge(a->second, b->second, merged->second, rank);
    const bool marks_meet = right.starts_with(Metaspace::kMark) && !left.ends_with(Metaspace::kMark);
    if (marks_meet) words_are_apart_ = false;
  }
}

void Tokenizer::AddAddedTokens() {
  SplitBudget budget(0);
  std::deque<std::string> normal;  // normalised texts of added tokens
  std::vector<AddedTokenFinder::Entry> as_written, in_normalized;
  for (const AddedToken& token : data_.added) {
    if (token.text.empty()) continue;
    if (token.text.size() > kMaxAddedBytes)
      Fail("tokenizer: added token {} has {} bytes, at most {} are allowed", token.id, token.text.size(),
           kMaxAddedBytes);
    const bool normalized = token.normalized && !token.special;
    std::string_view looked_for = token.text;
    if (normalized && !token.is_normal) {
      if (!IsValidUtf8(token.text)) Fail("tokenizer: added token {} is not valid UTF-8", token.id);
      looked_for = normalizer_.Apply(token.text, normal.emplace_back(), budget);
    }
    (normalized ? in_normalized : as_written).push_back({looked_for, &token});
    // If an added token is searched in normalised text, its text has the space that the normalizer puts in front, as in
    // HF.
    bytes_[static_cast<size_t>(token.id)] = normalized && data_.metaspace ? ReadMarks(looked_for) : token.text;
    special_[static_cast<size_t>(token.id)] = token.special;
  }
  as_written_ = AddedTokenFinder(as_written);
  in_normalized_ = AddedTokenFinder(in_normalized);
}

/// Sets longest_token_ and any_length_. A text of any length may have few tokens if added tokens take whitespace, if
/// earlier steps drop text, or if a run of unknown characters becomes one token. Bytes without a token are dropped,
/// too; SurelyExceeds can account for them only when no normalizer changes the text.
void Tokenizer::MeasureTokens() {
  for (const std::string& bytes : bytes_) longest_token_ = std::max(longest_token_, bytes.size());
  bool drops_bytes = false;
  for (int byte = 0; byte <= 0xf4 && !data_.metaspace; ++byte)  // bytes that occur in UTF-8
    drops_bytes = drops_bytes || (byte != 0xc0 && byte != 0xc1 && !bpe_.HasToken(static_cast<unsigned char>(byte)));
  const bool fuses = word_piece_ || (unigram_ ? !unigram_->knows_all_bytes() : data_.unknown.has_value());
  any_length_ =
      fuses || !pre_tokenizer_.keeps_all() || normalizer_.shrinking() == 0 ||
      (drops_bytes && !data_.normalizer.empty()) ||
      std::ranges::any_of(data_.added, [](const AddedToken& token) { return token.left_strip || token.right_strip; });
}

bool Tokenizer::SurelyExceeds(std::string_view text, size_t num_tokens) const {
  if (any_length_) return false;
  constexpr size_t kMarkBytes = 3;  // length of "▁", which counts as one byte in longest_token_
  const size_t per_token =
      std::max<size_t>(1, longest_token_ * normalizer_.shrinking() * (data_.metaspace ? kMarkBytes : 1));
  if (text.size() / per_token <= num_tokens) return false;
  if (data_.metaspace) return true;
  const auto kept = static_cast<size_t>(
      std::ranges::count_if(text, [&](char c) { return bpe_.HasToken(static_cast<unsigned char>(c)); }));
  return kept / per_token > num_tokens;
}

std::string_view Tokenizer::Bytes(TokenId token) const {
  if (token < 0 || token >= vocab_size()) return {};
  return bytes_[static_cast<size_t>(token)];
}

/// Appends an added token.
void Tokenizer::Work::Put(TokenId token) {
  if (out.size() >= bounds.max_tokens) throw TooManyTokens();
  out.push_back(token);
}

std::vector<TokenId> Tokenizer::Encode(const MarkedText& marked, const EncodeBounds& bounds) const {
  std::vector<TokenId> out;
  std::optional<SplitBudget> own;
  Work work{bounds, bounds.splitting ? *bounds.splitting : own.emplace(marked.text.size(), std::nullopt, bounds.stop),
            Normalizer::RoomFor(marked.text.size()), out};
  for (const TextPart& piece : CutAtTokens(marked.text, as_written_, &marked, bounds.stop)) {
    if (piece.token != nullptr) {
      work.Put(piece.token->id);
    } else {
      EncodeBetween(piece.text, piece.text.data() == marked.text.data(), work);
    }
  }
  return out;
}

void Tokenizer::EncodeBetween(std::string_view text, bool is_first, Work& work) const {
  // The pattern matcher requires valid UTF-8. A template may be invalid, and a template or an added token may have cut
  // a character in two.
  if (!IsValidUtf8(text)) Fail("tokenizer: the text is not valid UTF-8");
  std::string storage;
  const std::string_view normalized = normalizer_.Apply(text, storage, work.budget, work.room);
  work.room -= std::min(work.room, normalized.size());
  for (const TextPart& piece : CutAtTokens(normalized, in_normalized_, nullptr, work.bounds.stop)) {
    if (piece.token != nullptr) {
      work.Put(piece.token->id);
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

Tokenizer::JoinedPair Tokenizer::JoinPair(std::vector<TokenId> first, std::vector<TokenId> second, size_t most) const {
  if (!data_.pair) Fail("the tokenizer joins no pairs of texts");
  const PairFrame& frame = *data_.pair;
  const size_t around = frame.before.size() + frame.between.size() + frame.after.size();
  const size_t room = most - std::min(most, around);
  if (first.size() + second.size() > room) {
    std::vector<TokenId>&shorter = first.size() <= second.size() ? first : second,
    &longer = &shorter == &first ? second : first;
    const size_t kept = std::min(shorter.size(), room / 2);
    shorter.resize(kept);
    longer.resize(room - kept);
  }
  JoinedPair pair;
  const auto append = [&](const std::vector<TokenId>& tokens) {
    pair.tokens.insert(pair.tokens.end(), tokens.begin(), tokens.end());
  };
  for (const auto& part : {frame.before, first, frame.between}) append(part);
  if (frame.second_type) pair.second = static_cast<int>(pair.tokens.size());
  for (const auto& part : {second, frame.after}) append(part);
  return pair;
}

void Tokenizer::EncodeWords(std::string_view text, bool is_first, Work& work) const {
  PreTokenizer::Pieces pieces = pre_tokenizer_.Cut(text, is_first, work.bounds.stop, work.budget);
  if (words_are_apart_ && !data_.whole_words_first) {
    // No merge crosses a mark, so cutting the text at marks saves time and does not change the tokens.
    std::vector<std::string_view> words;
    for (const std::string_view piece : pieces.all) CutAtMarks(piece, false, words);
    pieces.all.swap(words);
  }
  RecentWords recent(pieces.all.size());
  for (const std::string_view piece : pieces.all) {
    CheckStop(work.bounds.stop);
    if (work.out.size() > work.bounds.max_tokens) throw TooManyTokens();
    if (recent.Repeat(piece, work.out)) continue;
    const size_t begin = work.out.size();
    EncodePiece(piece, work);
    recent.Note(piece, begin, work.out.size());
  }
  if (work.out.size() > work.bounds.max_tokens) throw TooManyTokens();
}

void Tokenizer::EncodePiece(std::string_view piece, Work& work) const {
  if (data_.whole_words_first) {
    if (const auto it = whole_words_.find(piece); it != whole_words_.end()) {
      work.out.push_back(it->second);
      return;
    }
  }
  if (word_piece_) return word_piece_->Encode(piece, work.out);
  unigram_ ? unigram_->Encode(piece, work.bounds.stop, work.out) : bpe_.Encode(piece, work.bounds.stop, work.out);
}

}  // namespace quire
