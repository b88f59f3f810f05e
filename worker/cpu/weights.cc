#include "worker/cpu/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "worker/model/stored_rows.h"

namespace quire {

namespace {

/// Converts the columns of a slice to the packed type, row by row. A row stays valid until kPanelRows later rows have
/// been made.
class RowMaker {
 public:
  RowMaker(const Tensor& source, const WeightSlice& slice, NumberType type, NumberType form)
      : source_(source), type_(type), recode_(type != source.type && type == form), pieces_(slice.pieces) {
    // Reads whole blocks of the file that contain the wanted columns, or all columns if the wanted columns lie in
    // several pieces.
    const Range cols = pieces_.empty() ? slice.cols : Range{0, source.cols()};
    joined_bytes_ = kernels::RowBytes(type, slice.cols.size());
    if (!pieces_.empty()) joined_.resize(static_cast<size_t>(kernels::kPanelRows * joined_bytes_));
    const int64_t block = DecodeBlock(source);
    read_ = {cols.begin / block * block, (cols.end + block - 1) / block * block};
    if (type == source.type) return;
    skip_ = cols.begin - read_.begin;
    made_numbers_ = recode_ ? read_.size() : cols.size();
    numbers_.resize(static_cast<size_t>(recode_ ? 0 : read_.size()));
    made_.resize(static_cast<size_t>(kernels::kPanelRows * kernels::RowBytes(type, made_numbers_)));
  }

  const std::byte* Make(int64_t row) {
    const std::byte* made = MakeNeighbours(row);
    if (pieces_.empty()) return made;
    std::byte* const joined = joined_.data() + next_joined_ * joined_bytes_;
    next_joined_ = (next_joined_ + 1) % kernels::kPanelRows;
    std::byte* to = joined;
    for (const Range& piece : pieces_) {
      const int64_t bytes = kernels::RowBytes(type_, piece.size());
      std::memcpy(to, made + kernels::RowBytes(type_, piece.begin), static_cast<size_t>(bytes));
      to += bytes;
    }
    return joined;
  }

 private:
  /// Makes one row, without the order of `pieces_`: its columns come in the file's order.
  const std::byte* MakeNeighbours(int64_t row) {
    if (type_ == source_.type) {
      const kernels::Weight stored = AsWeight(source_);
      return stored.data + row * stored.row_bytes + kernels::RowBytes(stored.type, read_.begin);
    }
    std::byte* out = made_.data() + next_ * kernels::RowBytes(type_, made_numbers_);
    next_ = (next_ + 1) % kernels::kPanelRows;
    if (recode_) {
      RecodeRow(source_, type_, row, read_.begin, read_.size(), out);
      return out + kernels::RowBytes(type_, skip_);
    }
    DecodeRow(source_, row, read_.begin, read_.size(), numbers_.data());
    const float* wanted = numbers_.data() + skip_;
    if (type_ == NumberType::kF32) {
      std::memcpy(out, wanted, static_cast<size_t>(made_numbers_) * sizeof(float));
    } else {
      kernels::EncodeRow(type_, wanted, made_numbers_, out);
    }
    return out;
  }

  const Tensor& source_;
  NumberType type_;
  bool recode_;
  Range read_{};                         // columns that are read from the file
  int64_t skip_ = 0, made_numbers_ = 0;  // numbers of read_ before the wanted columns; numbers in a made row
  int64_t next_ = 0;                     // index in made_ of the next row
  std::vector<float> numbers_;
  std::vector<std::byte> made_;
  const std::vector<Range>& pieces_;
  std::vector<std::byte> joined_;  // a row joined from pieces
  int64_t joined_bytes_ = 0, next_joined_ = 0;
};

/// The members that hold the matrices and vectors of places.
struct Members {
  std::map<WeightPlace, Matrices*> matrices;
  std::map<WeightPlace, std::vector<float>*> vectors;
};

Members MembersOf(LayerWeights& w) {
  using enum WeightPlace;
  MixtureWeights& m = w.mixture;
  return {{{kQkv, &w.qkv},
           {kAttentionOut, &w.attention_out},
           {kQueryIn, &w.latents.in},
           {kLatentIn, &w.latents.in},
           {kLatentQuery, &w.latents.query},
           {kLatentKeys, &w.latents.keys},
           {kLatentValues, &w.latents.values},
           {kMixerIn, &w.mixer.in},
           {kMixerOut, &w.mixer.out},
           {kMlpIn, &w.mlp_in},
           {kDown, &w.down},
           {kRouter, &m.router},
           {kExpertsIn, &m.in},
           {kExpertsDown, &m.down},
           {kSharedIn, &m.shared_in},
           {kSharedDown, &m.shared_down},
           {kInputGate, &w.input_gate},
           {kInputOut, &w.input_out}},
          {{kAttentionNorm, &w.attention_norm.weight},
           {kAttentionNormBias, &w.attention_norm.bias},
           {kAttentionAfterNorm, &w.attention_after_norm},
           {kQkvBias, &w.qkv_bias},
           {kQueryNorm, &w.query_norm},
           {kKeyNorm, &w.key_norm},
           {kSinks, &w.sinks},
           {kAttentionOutBias, &w.attention_out_bias},
           {kQueryInNorm, &w.latents.query_norm},
           {kLatentNorm, &w.latents.norm},
           {kMlpNorm, &w.mlp_norm.weight},
           {kMlpNormBias, &w.mlp_norm.bias},
           {kMlpAfterNorm, &w.mlp_after_norm},
           {kUpBias, &w.up_bias},
           {kDownBias, &w.down_bias},
           {kRouterBias, &m.router_bias},
           {kRouterCorrection, &m.correction},
           {kExpertScales, &m.scales},
           {kExpertsInBias, &m.in_bias},
           {kExpertsDownBias, &m.down_bias},
           {kRouterNorm, &m.router_norm.weight},
           {kExpertsNorm, &m.experts_norm.weight},
           {kExpertsAfterNorm, &m.experts_after_norm},
           {kSharedAfterNorm, &m.shared_after_norm},
           {kInputNorm, &w.input_norm},
           {kTaps, &w.mixer.taps},
           {kTapsBias, &w.mixer.taps_bias},
           {kRate, &w.mixer.rate},
           {kDecayBias, &w.mixer.decay_bias},
           {kSkip, &w.mixer.skip},
           {kStateNorm, &w.mixer.norm}}};
}

Members MembersOf(ModelWeights& w) {
  using enum WeightPlace;
  return {{{kInputProjection, &w.layer_inputs.projection},
           {kPredictionIn, &w.prediction.in},
           {kHead, &w.head},
           {kSparse, &w.sparse},
           {kColbert, &w.colbert}},
          {{kEmbeddingNorm, &w.embedding_norm.weight},
           {kEmbeddingNormBias, &w.embedding_norm.bias},
           {kFinalNorm, &w.final_norm.weight},
           {kFinalNormBias, &w.final_norm.bias},
           {kInputProjectionNorm, &w.layer_inputs.norm},
           {kPredictionTokenNorm, &w.prediction.token_norm.weight},
           {kPredictionHiddenNorm, &w.prediction.hidden_norm.weight},
           {kHeadBias, &w.head_bias},
           {kSparseBias, &w.sparse_bias},
           {kColbertBias, &w.colbert_bias}}};
}

}  // namespace

kernels::PackedWeight ModelWeights::Pack(const Tensor& tensor, const WeightSlice& slice, Rounding rounding) {
  const std::vector<int64_t>& rows = slice.rows;
  const PackedForm form = FormOf(tensor, path_.c_str());
  kernels::PackedWeight out{TypeFor(form.type, slice, rounding), nullptr, static_cast<int64_t>(rows.size()),
                            slice.cols.size()};
  const int64_t bytes = kernels::PackedBytes(out.type, out.rows, out.cols);
  if (bytes == 0) return out;  // this rank has no part of the matrix
  if (form.widened != nullptr && out.type == form.type) ++widened_[form.widened];
  bytes_ += bytes;
  if (loading_ == Loading::kCount) return out;
  storage_.emplace_back(static_cast<size_t>(bytes));
  std::byte* to = storage_.back().data();
  out.data = to;
  RowMaker maker(tensor, slice, out.type, form.type);
  const int64_t row_bytes = std::ssize(tensor.data) / tensor.rows();
  for (size_t first = 0; first < rows.size(); first += kernels::kPanelRows) {
    const std::byte* panel[kernels::kPanelRows] = {};
    pages_.WillRead(1, kernels::kPanelRows * row_bytes);
    for (size_t i = 0; i < kernels::kPanelRows && first + i < rows.size(); ++i) panel[i] = maker.Make(rows[first + i]);
    kernels::PackPanel(out.type, out.cols, panel, to);
    to += kernels::PanelBytes(out.type, out.cols);
  }
  return out;
}

std::optional<NumberType> ModelWeights::TypeOf(Rounding rounding) const {
  if (!wanted_ || rounding == Rounding::kNever) return {};
  return rounding == Rounding::kToEightBits ? NumberType::kQ8_0 : *wanted_;
}

NumberType ModelWeights::TypeFor(NumberType form, const WeightSlice& slice, Rounding rounding) const {
  const auto is_whole = [](const Range& cols) {
    return cols.begin % kernels::kQuantBlock == 0 && cols.end % kernels::kQuantBlock == 0;
  };
  const bool whole = is_whole(slice.cols) && std::ranges::all_of(slice.pieces, is_whole);
  if (LayoutOf(form).block_numbers > 1) return whole ? form : NumberType::kF32;
  const std::optional<NumberType> wanted = TypeOf(rounding);
  return wanted && whole ? *wanted : form;
}

void ModelWeights::Pack(const ModelFiles& files, const RankShard& shard, const PlannedWeight& planned, int64_t layer,
                        int64_t expert, Matrices& to) {
  if (planned.heads > 0) return PackByHead(files, shard, planned, layer, to);
  for (const auto& [role, rows, rounding] : planned.parts) {
    std::vector<std::byte> room;
    const Tensor& stored = files.Get(role, layer, expert);
    const WeightSlice slice = SliceOf(files, shard, role, layer);
    if (!files.weight(role).transposed) {
      to.push_back(Pack(stored, slice, rounding));
    } else if (loading_ == Loading::kCount) {
      to.push_back(Pack({stored.type, {stored.cols(), stored.rows()}, {}}, slice, rounding));
    } else {
      to.push_back(Pack(Transposed(stored, room), slice, rounding));
    }
  }
}

LayerWeights ModelWeights::LoadLayer(const ModelFiles& files, const RankShard& shard, int64_t layer) {
  LayerWeights out;
  const Members to = MembersOf(out);
  const auto load = [&](const PlannedWeight& planned, int64_t expert) {
    const WeightPlace place = planned.place;
    if (IsMatrix(place)) return Pack(files, shard, planned, layer, expert, *to.matrices.at(place));
    const std::vector<float> numbers = ReadVector(files, shard, planned, layer, expert);
    if (place == WeightPlace::kLayerScale) {
      out.scale = numbers.front();
    } else {
      to.vectors.at(place)->insert(to.vectors.at(place)->end(), numbers.begin(), numbers.end());
    }
  };
  VisitByExpert(PlanLayer(files.spec(), shard, layer), shard.experts, load);
  return out;
}

void ModelWeights::LoadOutsideLayers(const ModelFiles& files, const RankShard& shard, const Matrices* other_head) {
  const Members to = MembersOf(*this);
  const std::map<WeightPlace, kernels::Weight*> tables = {{WeightPlace::kEmbedding, &embedding},
                                                          {WeightPlace::kPositions, &positions},
                                                          {WeightPlace::kTokenTypes, &token_types},
                                                          {WeightPlace::kLayerEmbedding, &layer_inputs.embedding}};
  for (const PlannedWeight& planned : PlanOutsideLayers(files.spec(), shard)) {
    if (IsTable(planned.place)) {
      *tables.at(planned.place) = AsWeight(files.Get(planned.parts.front().role));
    } else if (!IsMatrix(planned.place)) {
      *to.vectors.at(planned.place) = ReadVector(files, shard, planned);
    } else if (planned.place == WeightPlace::kHead && other_head != nullptr) {
      head = *other_head;
    } else {
      Pack(files, shard, planned, 0, 0, *to.matrices.at(planned.place));
    }
  }
  if (positions.rows > 0) {
    positions.data += files.spec().position_offset * positions.row_bytes;
    positions.rows -= files.spec().position_offset;
  }
}

std::vector<std::string> ModelWeights::Notes() const {
  std::vector<std::string> notes;
  for (const auto& [why, matrices] : widened_)
    notes.push_back(fmt::format(
        "{} matrices take 16 bits a number ({}); --quantization int8 halves that, with rounding", matrices, why));
  return notes;
}

ModelWeights::ModelWeights(const ModelFiles& files, const RankShard& shard, Quantization quantization, Loading loading,
                           const Matrices* other_head)
    : loading_(loading), path_(files.path()), pages_(files), wanted_(TypeOfPlain(quantization)) {
  for (int64_t i = 0; i < files.spec().num_layers(); ++i) layers.push_back(LoadLayer(files, shard, i));
  LoadOutsideLayers(files, shard, other_head);
  files.ReleasePages();  // also releases the embedding's pages; rows that are looked up are read again
}

}  // namespace quire
