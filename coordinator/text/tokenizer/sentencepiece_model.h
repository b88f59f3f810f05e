#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {

/// A SentencePiece model: its vocabulary and its normalization.
struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2 };
  enum class Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };
  std::vector<Piece> pieces;  // indexed by token id
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  normalize::SentencePiece normalizer;  // the normalizer without the user-defined pieces
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";

  /// Returns the token of the control piece with this text; nullopt when there is none.
  std::optional<TokenId> ControlToken(std::string_view text) const;
};

/// Reads a tokenizer.model file (SentencePiece's ModelProto). Throws Error with the path and the position when the file
/// is broken or has an unsupported feature.
SentencePieceModel ReadSentencePieceModel(std::string_view bytes, const std::string& path);

/// Adds the model's tokens and rules to `data`, as SentencePiece applies them. In addition, control pieces are
/// recognised in trusted text. Errors begin with `path`.
void AddSentencePiece(const SentencePieceModel& model, const std::string& path, TokenizerData& data);

/// Returns the merges of SentencePiece's BPE; its files have no list of merges. Two adjacent pieces merge when the
/// vocabulary contains their joined text. Pairs whose joined text has the highest score merge first.
std::vector<MergeRule> MergesByScore(const std::vector<SentencePieceModel::Piece>& pieces);

}  // namespace quire
