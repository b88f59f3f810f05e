#include "coordinator/text/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/protobuf_reader.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxPieces = 1 << 24;

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint32_t { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };
enum PieceField : uint32_t { kText = 1, kScore = 2, kType = 3 };
enum TrainerField : uint32_t {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kBosPiece = 46,
  kEosPiece = 47,
  kPadPiece = 48
};
enum NormalizerField : uint32_t { kCharsmap = 2, kDummyPrefix = 3, kRemoveExtra = 4, kEscape = 5 };

SentencePieceModel::Piece ReadPiece(ProtobufReader reader, size_t id, const std::string& path) {
  SentencePieceModel::Piece piece;
  while (const auto field = reader.Next()) {
    if (field->number() == kText) {
      piece.text = field->Bytes();
    } else if (field->number() == kScore) {
      piece.score = field->Float();
    } else if (field->number() == kType) {
      const uint64_t type = field->Integer();
      if (type < 1 || type > 6) Fail("{}: piece {} is of the unknown type {}", path, id, type);
      piece.type = static_cast<SentencePieceModel::Type>(type);
    }
  }
  if (piece.text.empty() || !IsValidUtf8(piece.text)) Fail("{}: piece {} is no text", path, id);
  if (!std::isfinite(piece.score)) Fail("{}: piece {} has the score {}", path, id, piece.score);
  return piece;
}

void ReadTrainer(ProtobufReader reader, const std::string& path, SentencePieceModel& model) {
  while (const auto field = reader.Next()) {
    switch (field->number()) {
      case kModelType: {
        const uint64_t type = field->Integer();
        if (type != 1 && type != 2)
          Fail("{}: model_type {} is not supported; supported: 1 (UNIGRAM), 2 (BPE)", path, type);
        model.kind = static_cast<SentencePieceModel::Kind>(type);
        break;
      }
      case kWhitespaceAsSuffix:
        model.normalizer.whitespace_as_suffix = field->Flag();
        break;
      case kByteFallback:
        model.byte_fallback = field->Flag();
        break;
      case kBosPiece:
        model.bos_piece = field->Bytes();
        break;
      case kEosPiece:
        model.eos_piece = field->Bytes();
        break;
      case kPadPiece:
        model.pad_piece = field->Bytes();
        break;
      default:
        break;  // training settings
    }
  }
}

void ReadNormalizerSpec(ProtobufReader reader, normalize::SentencePiece& normalizer) {
  while (const auto field = reader.Next()) {
    if (field->number() == kCharsmap) normalizer.charsmap = field->Bytes();
    if (field->number() == kDummyPrefix) normalizer.add_dummy_prefix = field->Flag();
    if (field->number() == kRemoveExtra) normalizer.remove_extra_whitespaces = field->Flag();
    if (field->number() == kEscape) normalizer.escape_whitespaces = field->Flag();
  }
}

void RefuseDenormalizer(ProtobufReader reader, const std::string& path) {
  while (const auto field = reader.Next()) {
    if (field->number() == kCharsmap && !field->Bytes().empty()) Fail("{}: a denormalizer_spec is not supported", path);
  }
}

}  // namespace

std::optional<TokenId> SentencePieceModel::ControlToken(std::string_view text) const {
  const auto found = std::ranges::find_if(
      pieces, [&](const Piece& piece) { return piece.type == Type::kControl && piece.text == text; });
  if (found == pieces.end()) return std::nullopt;
  return static_cast<TokenId>(found - pieces.begin());
}

SentencePieceModel ReadSentencePieceModel(std::string_view bytes, const std::string& path) {
  SentencePieceModel model;
  ProtobufReader reader(bytes, path);
  while (const auto field = reader.Next()) {
    if (field->number() == kPieces) {
      if (model.pieces.size() == kMaxPieces) Fail("{}: more than {} pieces", path, kMaxPieces);
      model.pieces.push_back(ReadPiece(field->Message(), model.pieces.size(), path));
    } else if (field->number() == kTrainer) {
      ReadTrainer(field->Message(), path, model);
    } else if (field->number() == kNormalizer) {
      ReadNormalizerSpec(field->Message(), model.normalizer);
    } else if (field->number() == kDenormalizer) {
      RefuseDenormalizer(field->Message(), path);
    }
  }
  if (model.pieces.empty()) Fail("{}: there are no pieces; is it a tokenizer of SentencePiece's?", path);
  return model;
}

}  // namespace quire
