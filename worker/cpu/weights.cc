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

}  // namespace

kernels::PackedWeight ModelWeights::Pack(const Tensor& tensor, const WeightSlice& slice) {
  const std::vector<int64_t>& rows = slice.rows;
  const PackedForm form = FormOf(tensor, path_.c_str());
  kernels::PackedWeight out{TypeFor(form.type, slice), nullptr, static_cast<int64_t>(rows.size()), slice.cols.size()};
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

NumberType ModelWeights::TypeFor(NumberType form, const WeightSlice& slice) const {
  const auto is_whole = [](const Range& cols) {
    return cols.begin % kernels::kQuantBlock == 0 && cols.end % kernels::kQuantBlock == 0;
  };
  const bool whole = is_whole(slice.cols) && std::ranges::all_of(slice.pieces, is_whole);
  if (LayoutOf(form).block_numbers > 1) return whole ? form : NumberType::kF32;
  return wanted_ && whole ? *wanted_ : form;
}

kernels::PackedWeight ModelWeights::Load(const ModelFiles& files, const RankShard& shard, Role role, int64_t layer,
                                         int64_t expert) {
  const WeightSpec& weight = files.weight(role);
  std::vector<std::byte> room;
  const Tensor& stored = files.Get(role, layer, expert);
  const WeightSlice slice = SliceOf(files, shard, role, layer);
  if (!weight.transposed) return Pack(stored, slice);
  if (loading_ == Loading::kCount) return Pack({stored.type, {stored.cols(), stored.rows()}, {}}, slice);
  return Pack(Transposed(stored, room), slice);
}

MixtureWeights ModelWeights::LoadMixture(const ModelFiles& files, const RankShard& shard, int64_t layer) {
  const Mixture& mixture = files.spec().mixture;
  const bool gated = files.spec().gated_mlp;
  const auto matrix = [&](Role role, int64_t expert = 0) { return Load(files, shard, role, layer, expert); };
  MixtureWeights out;
  const auto wanted = std::exchange(wanted_, std::nullopt);
  out.router = {matrix(Role::kRouter)};
  if (mixture.shared_gate) out.router.push_back(matrix(Role::kSharedScale));
  wanted_ = wanted;
  out.router_bias = ReadVector(files, shard, Role::kRouterBias, layer);
  out.correction = ReadVector(files, shard, Role::kRouterCorrection, layer);
  out.scales = ReadVector(files, shard, Role::kExpertScale, layer);
  out.router_norm.weight = ReadVector(files, shard, Role::kRouterNorm, layer);
  out.experts_norm.weight = ReadVector(files, shard, Role::kExpertsNorm, layer);
  out.experts_after_norm = ReadVector(files, shard, Role::kExpertsAfterNorm, layer);
  out.shared_after_norm = ReadVector(files, shard, Role::kSharedAfterNorm, layer);
  for (int64_t e = shard.experts.begin; e < shard.experts.end; ++e) {
    if (gated) out.in.push_back(matrix(Role::kExpertGate, e));
    out.in.push_back(matrix(Role::kExpertUp, e));
    out.down.push_back(matrix(Role::kExpertDown, e));
    for (const auto& [role, biases] : {std::pair{Role::kExpertGateBias, &out.in_bias},
                                       {Role::kExpertUpBias, &out.in_bias},
                                       {Role::kExpertDownBias, &out.down_bias}}) {
      const std::vector<float> bias = ReadVector(files, shard, role, layer, e);
      biases->insert(biases->end(), bias.begin(), bias.end());
    }
  }
  if (mixture.shared_intermediate_size > 0) {
    if (gated) out.shared_in.push_back(matrix(Role::kSharedGate));
    out.shared_in.push_back(matrix(Role::kSharedUp));
    out.shared_down = {matrix(Role::kSharedDown)};
  }
  return out;
}

void ModelWeights::LoadAttention(const ModelFiles& files, const RankShard& shard, int64_t layer, LayerWeights& out) {
  const auto matrix = [&](Role role) { return Load(files, shard, role, layer); };
  const auto vector = [&](Role role) { return ReadVector(files, shard, role, layer); };
  out.attention_out = {matrix(Role::kAttentionOut)};
  if (files.spec().latent.rank > 0) {
    out.latents = LoadLatents(files, shard, layer);
    return;
  }
  out.qkv = {matrix(Role::kQuery)};
  if (files.spec().layers[static_cast<size_t>(layer)].has_kv()) {
    for (const Role role : {Role::kKey, Role::kValue}) out.qkv.push_back(matrix(role));
  }
  if (files.spec().attention_gate) out.qkv.push_back(matrix(Role::kAttentionGate));
  for (const Role role : {Role::kQueryBias, Role::kKeyBias, Role::kValueBias}) {
    const std::vector<float> bias = vector(role);
    out.qkv_bias.insert(out.qkv_bias.end(), bias.begin(), bias.end());
  }
  out.query_norm = vector(Role::kQueryNorm);
  out.key_norm = vector(Role::kKeyNorm);
  out.sinks = vector(Role::kSinks);
  out.attention_out_bias = vector(Role::kAttentionOutBias);
}

MixerWeights ModelWeights::LoadMixer(const ModelFiles& files, const RankShard& shard, int64_t layer) {
  MixerWeights out;
  for (const Role role : MixerInRoles(files, layer)) {
    const bool stays = role == Role::kStateBeta || role == Role::kStateDecay;
    const auto wanted = stays ? std::exchange(wanted_, std::nullopt) : wanted_;
    out.in.push_back(Load(files, shard, role, layer));
    wanted_ = wanted;
  }
  out.out = {Load(files, shard, MixerOutRole(files, layer), layer)};
  out.vectors = ReadMixerVectors(files, shard, layer);
  return out;
}

LayerWeights ModelWeights::LoadLayer(const ModelFiles& files, const RankShard& shard, int64_t layer) {
  const auto matrix = [&](Role role) { return Load(files, shard, role, layer); };
  const auto vector = [&](Role role) { return ReadVector(files, shard, role, layer); };
  const LayerSpec& l = files.spec().layers[static_cast<size_t>(layer)];
  LayerWeights out;
  out.attention_norm = {vector(Role::kAttentionNorm), vector(Role::kAttentionNormBias)};
  out.mlp_norm = {vector(Role::kMlpNorm), vector(Role::kMlpNormBias)};
  out.attention_after_norm = vector(Role::kAttentionAfterNorm);
  out.mlp_after_norm = vector(Role::kMlpAfterNorm);
  if (l.has_attention()) LoadAttention(files, shard, layer, out);
  if (l.has_state()) out.mixer = LoadMixer(files, shard, layer);
  if (files.spec().layer_input_size > 0) {
    out.input_gate = {matrix(Role::kLayerInputGate)};
    out.input_out = {matrix(Role::kLayerInputOut)};
    out.input_norm = vector(Role::kLayerInputNorm);
  }
  if (files.spec().layer_scales) out.scale = vector(Role::kLayerScale).front();
  if (l.mixture) {
    out.mixture = LoadMixture(files, shard, layer);
    return out;
  }
  if (!l.mlp) return out;
  if (files.spec().gated_mlp) out.mlp_in.push_back(matrix(Role::kGate));
  out.mlp_in.push_back(matrix(Role::kUp));
  out.up_bias = vector(Role::kUpBias);
  out.down = {matrix(Role::kDown)};
  out.down_bias = vector(Role::kDownBias);
  return out;
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
  for (int64_t i = 0; i < files.spec().num_layers(); ++i)
    layers.push_back(shard.stage.Contains(i) ? LoadLayer(files, shard, i) : LayerWeights());
  const auto vector = [&](Role role) { return ReadVector(files, shard, role); };
  embedding_norm = {vector(Role::kEmbeddingNorm), vector(Role::kEmbeddingNormBias)};
  final_norm = {vector(Role::kFinalNorm), vector(Role::kFinalNormBias)};
  if (shard.is_last()) head_bias = vector(Role::kHeadBias);
  if (files.Has(Role::kPositions)) {
    positions = AsWeight(files.Get(Role::kPositions));
    positions.data += files.spec().position_offset * positions.row_bytes;
    positions.rows -= files.spec().position_offset;
  }
  embedding = AsWeight(files.Get(Role::kEmbedding));
  if (files.spec().layer_input_size > 0) {
    layer_inputs.embedding = AsWeight(files.Get(Role::kLayerEmbedding));
    layer_inputs.projection = {Load(files, shard, Role::kLayerProjection, 0)};
    layer_inputs.norm = vector(Role::kLayerProjectionNorm);
    for (float& weight : layer_inputs.norm) weight *= std::sqrt(0.5f);
  }
  if (files.spec().predicts) {
    prediction = {{vector(Role::kPredictionTokenNorm), {}},
                  {vector(Role::kPredictionHiddenNorm), {}},
                  {Load(files, shard, Role::kPredictionIn, 0)}};
  }
  if (files.Has(Role::kTokenTypes)) token_types = AsWeight(files.Get(Role::kTokenTypes));
  if (wanted_) wanted_ = NumberType::kQ8_0;
  if (other_head != nullptr)
    head = *other_head;
  else if (files.Has(Role::kHead) && shard.is_last())
    head = {Pack(files.Get(Role::kHead), SliceOf(files, shard, Role::kHead))};
  if (files.spec().pooled_head.sparse && shard.is_last()) {
    sparse = {Load(files, shard, Role::kSparse, 0)};
    sparse_bias = vector(Role::kSparseBias);
  }
  if (files.spec().pooled_head.colbert > 0 && shard.is_last()) {
    colbert = {Load(files, shard, Role::kColbert, 0)};
    colbert_bias = vector(Role::kColbertBias);
  }
  files.ReleasePages();  // also releases the embedding's pages; rows that are looked up are read again
}

}  // namespace quire
