#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_set>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/keyed_hash.h"
#include "coordinator/text/tokenizer/sentencepiece_model.h"

namespace quire {

namespace {

using Piece = SentencePieceModel::Piece;
using Type = SentencePieceModel::Type;

constexpr size_t kMaxMergedBytes = 256;   // length of a token merged from others
constexpr size_t kMaxMerges = 8'000'000;  // the limit that a file's list of merges has, too

/// Returns the Unigram model, with scores in single precision as in SentencePiece. The scores of user-defined pieces
/// follow SentencePiece's formula.
UnigramModel UnigramOf(const SentencePieceModel& model, TokenId unknown) {
  constexpr float kUnknownPenalty = 10;
  constexpr double kUserDefinedPenalty = 0.1;
  float lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::lowest();
  for (const Piece& piece : model.pieces) {
    if (piece.type != Type::kNormal) continue;
    lowest = std::min(lowest, piece.score);
    highest = std::max(highest, piece.score);
  }
  UnigramModel unigram;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& [text, score, type] = model.pieces[id];
    const auto token = static_cast<TokenId>(id);
    if (type == Type::kNormal) unigram.pieces.push_back({token, score});
    if (type == Type::kUserDefined)
      unigram.pieces.push_back(
          {token, static_cast<float>(static_cast<float>(text.size()) * highest - kUserDefinedPenalty)});
  }
  unigram.unknown = unknown;
  unigram.unknown_score = lowest - kUnknownPenalty;
  unigram.byte_fallback = model.byte_fallback;
  unigram.single_precision = true;
  return unigram;
}

TokenId UnknownToken(const SentencePieceModel& model, const std::string& path) {
  const auto found = std::ranges::find(model.pieces, Type::kUnknown, &Piece::type);
  if (found == model.pieces.end()) Fail("{}: no piece stands for what is not known", path);
  return static_cast<TokenId>(found - model.pieces.begin());
}

using Known = std::unordered_set<std::string_view, KeyedHash>;

Known KnownPieces(const std::vector<Piece>& pieces) {
  Known known;
  for (const Piece& piece : pieces) {
    if (piece.type == Type::kNormal || piece.type == Type::kUserDefined) known.insert(piece.text);
  }
  return known;
}

/// Calls `each` with every position that divides the text into two known pieces. Ignores texts longer than
/// kMaxMergedBytes.
template <class Each>
void ForEachCut(std::string_view text, const Known& known, const Each& each) {
  if (text.size() > kMaxMergedBytes) return;
  for (size_t at = 1; at < text.size(); ++at) {
    if (known.contains(text.substr(0, at)) && known.contains(text.substr(at))) each(at);
  }
}

/// Throws Error for unused pieces that merges would produce. SentencePiece splits such pieces again, which Quire does
/// not implement; no known model has such a piece.
void RefuseUnusedPieces(const SentencePieceModel& model, const std::string& path) {
  const Known known = KnownPieces(model.pieces);
  for (const Piece& piece : model.pieces) {
    if (piece.type != Type::kUnused) continue;
    ForEachCut(piece.text, known, [&](size_t) {
      Fail("{}: the unused piece \"{}\" can be put together from others: not supported", path, piece.text);
    });
  }
}

}  // namespace

std::vector<MergeRule> MergesByScore(const std::vector<Piece>& pieces) {
  const Known known = KnownPieces(pieces);
  std::vector<const Piece*> by_score;
  for (const Piece& piece : pieces) {
    if (piece.type == Type::kNormal || piece.type == Type::kUserDefined) by_score.push_back(&piece);
  }
  std::ranges::stable_sort(by_score, std::greater(), &Piece::score);
  std::vector<MergeRule> merges;
  int rank = -1;
  for (size_t i = 0; i < by_score.size(); ++i) {
    if (i == 0 || by_score[i]->score != by_score[i - 1]->score) ++rank;
    const std::string_view text = by_score[i]->text;
    ForEachCut(text, known, [&](size_t at) {
      if (merges.size() == kMaxMerges)
        Fail("tokenizer: the pieces can be put together in more than {} ways", kMaxMerges);
      merges.push_back({std::string(text.substr(0, at)), std::string(text.substr(at)), rank});
    });
  }
  return merges;
}

void AddSentencePiece(const SentencePieceModel& model, const std::string& path, TokenizerData& data) {
  const TokenId unknown = UnknownToken(model, path);
  normalize::SentencePiece normalizer = model.normalizer;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& [text, score, type] = model.pieces[id];
    const auto token = static_cast<TokenId>(id);
    data.tokens.push_back(text);
    if (type == Type::kUserDefined) normalizer.user_defined.push_back(text);
    if (type == Type::kControl || type == Type::kUnknown) {
      data.added.push_back({.id = token, .text = text, .special = true});
    } else if (type == Type::kUserDefined && model.kind == SentencePieceModel::Kind::kBpe) {
      data.added.push_back({.id = token, .text = text, .normalized = true, .is_normal = true});
    }
  }
  data.metaspace.emplace().has_bytes = model.byte_fallback;
  if (normalizer.add_dummy_prefix || normalizer.remove_extra_whitespaces)
    data.metaspace->front = Metaspace::Front::kSpaceDropped;
  data.normalizer.emplace_back(std::move(normalizer));
  if (model.kind == SentencePieceModel::Kind::kUnigram) {
    data.unigram = UnigramOf(model, unknown);
    return;
  }
  data.merges = MergesByScore(model.pieces);
  RefuseUnusedPieces(model, path);
  if (!model.byte_fallback) data.unknown = unknown;
}

}  // namespace quire
