#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// A model of SentencePiece's: its vocabulary, and what it does to texts.
struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2 };
  enum class Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  std::vector<Piece> pieces;  // by token
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  normalize::SentencePiece normalizer;  // but for the user-defined pieces
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";

  /// The piece's token when it is a control piece.
  std::optional<TokenId> ControlToken(std::string_view text) const;
};

/// Reads a tokenizer.model, a `ModelProto` of SentencePiece's. Throws Error, with the path and the place, when it is
/// broken or holds what is not supported.
SentencePieceModel ReadSentencePieceModel(std::string_view bytes, const std::string& path);

/// Puts the model's tokens and how they are made into `data`, as SentencePiece itself does it, but that control pieces
/// are found in trusted text and cut it. Errors begin with `path`.
void AddSentencePiece(const SentencePieceModel& model, const std::string& path, TokenizerData& data);

/// SentencePiece's BPE has no list of merges: two neighbours are joined when the vocabulary has what they spell
/// together, the piece of the highest score first.
std::vector<MergeRule> MergesByScore(const std::vector<SentencePieceModel::Piece>& pieces);

}  // namespace quire
