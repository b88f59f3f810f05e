#include "worker/cpu/weights.h"

#include <cstring>

#include "comm/error.h"
#include "worker/shard_rows.h"

namespace quire {

namespace {

/// Some columns of a tensor's rows, in the type that they are packed in. A row is valid until kPanelRows later ones
/// were made.
class RowMaker {
 public:
  RowMaker(const kernels::Weight& source, Range cols, kernels::WeightType type)
      : source_(source), type_(type), recode_(type != source.type && type == kernels::PackedType(source.type)) {
    // Whole blocks of the file, of which the wanted columns are a part.
    const int64_t block = kernels::LayoutOf(source.type).block_numbers;
    read_ = {cols.begin / block * block, (cols.end + block - 1) / block * block};
    if (type == source.type) return;
    skip_ = cols.begin - read_.begin;
    made_numbers_ = recode_ ? read_.size() : cols.size();
    numbers_.resize(static_cast<size_t>(recode_ ? 0 : read_.size()));
    made_.resize(static_cast<size_t>(kernels::kPanelRows * kernels::RowBytes(type, made_numbers_)));
  }

  const std::byte* Make(int64_t row) {
    if (type_ == source_.type)
      return source_.data + row * source_.row_bytes + kernels::RowBytes(source_.type, read_.begin);
    std::byte* out = made_.data() + next_ * kernels::RowBytes(type_, made_numbers_);
    next_ = (next_ + 1) % kernels::kPanelRows;
    if (recode_) {
      kernels::RecodeRow(source_, row, read_.begin, read_.size(), out);
      return out + kernels::RowBytes(type_, skip_);
    }
    kernels::DecodeRow(source_, row, read_.begin, read_.size(), numbers_.data());
    const float* wanted = numbers_.data() + skip_;
    if (type_ == kernels::WeightType::kF32) {
      std::memcpy(out, wanted, static_cast<size_t>(made_numbers_) * sizeof(float));
    } else {
      kernels::EncodeRow(type_, wanted, made_numbers_, out);
    }
    return out;
  }

 private:
  const kernels::Weight& source_;
  kernels::WeightType type_;
  bool recode_;
  Range read_{};                         // columns
  int64_t skip_ = 0, made_numbers_ = 0;  // of read_, before those that are wanted; of a row that is made
  int64_t next_ = 0;                     // place of the next row in made_
  std::vector<float> numbers_;
  std::vector<std::byte> made_;
};

}  // namespace

kernels::PackedWeight ModelWeights::PackRows(const Tensor& tensor, const std::vector<int64_t>& rows, Range cols) {
  const kernels::Weight source = AsWeight(tensor);
  kernels::PackedWeight out{TypeFor(source.type, cols), nullptr, static_cast<int64_t>(rows.size()), cols.size()};
  const int64_t bytes = kernels::PackedBytes(out.type, out.rows, out.cols);
  if (bytes == 0) return out;  // nothing of it is this rank's
  storage_.emplace_back(static_cast<size_t>(bytes));
  bytes_ += bytes;
  std::byte* to = storage_.back().data();
  out.data = to;
  RowMaker maker(source, cols, out.type);
  for (size_t first = 0; first < rows.size(); first += kernels::kPanelRows) {
    const std::byte* panel[kernels::kPanelRows] = {};
    for (size_t i = 0; i < kernels::kPanelRows && first + i < rows.size(); ++i) panel[i] = maker.Make(rows[first + i]);
    kernels::PackPanel(out.type, out.cols, panel, to);
    to += kernels::PanelBytes(out.type, out.cols);
  }
  return out;
}

kernels::PackedWeight ModelWeights::Pack(const Tensor& tensor, Range rows, Range cols) {
  return PackRows(tensor, RowsOf(rows), cols);
}

kernels::PackedWeight ModelWeights::PackHeads(const Tensor& tensor, Range heads, int64_t head_dim, bool interleaved) {
  return PackRows(tensor, RowsOfHeads(heads, head_dim, interleaved), {0, tensor.cols()});
}

kernels::WeightType ModelWeights::TypeFor(kernels::WeightType stored, Range cols) const {
  using kernels::WeightType;
  const auto whole = [&](int64_t block) { return cols.begin % block == 0 && cols.end % block == 0; };
  const WeightType packed = kernels::PackedType(stored);
  if (kernels::LayoutOf(packed).block_numbers > 1) return whole(kernels::kQuantBlock) ? packed : WeightType::kF32;
  return wanted_ && whole(kernels::kQuantBlock) ? *wanted_ : stored;
}

ModelWeights::ModelWeights(const ModelFiles& files, const RankShard& shard, const std::string& quantization) {
  if (quantization == "int8") wanted_ = kernels::WeightType::kQ8_0;
  if (quantization == "int4") wanted_ = kernels::WeightType::kQ4_1;
  const ModelConfig& c = files.config();
  const Range hidden{0, c.hidden_size};
  const Range head_cols{shard.heads.begin * c.head_dim, shard.heads.end * c.head_dim};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const auto tensor = [&](const char* name) -> const Tensor& { return files.Get(prefix + name + ".weight"); };
    LayerWeights layer;
    layer.input_norm = ReadVector(tensor("input_layernorm"));
    layer.post_attention_norm = ReadVector(tensor("post_attention_layernorm"));
    layer.qkv = {PackHeads(tensor("self_attn.q_proj"), shard.heads, c.head_dim, c.interleaved_rope_rows),
                 PackHeads(tensor("self_attn.k_proj"), shard.kv_heads, c.head_dim, c.interleaved_rope_rows),
                 PackHeads(tensor("self_attn.v_proj"), shard.kv_heads, c.head_dim, false)};
    layer.o = {Pack(tensor("self_attn.o_proj"), hidden, head_cols)};
    layer.gate_up = {Pack(tensor("mlp.gate_proj"), shard.mlp, hidden), Pack(tensor("mlp.up_proj"), shard.mlp, hidden)};
    layer.down = {Pack(tensor("mlp.down_proj"), hidden, shard.mlp)};
    layers.push_back(std::move(layer));
  }
  final_norm = ReadVector(files.Get("model.norm.weight"));
  embedding = AsWeight(files.Get("model.embed_tokens.weight"));
  const Tensor& head = files.Get(c.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  if (wanted_) wanted_ = kernels::WeightType::kQ8_0;
  lm_head = {Pack(head, shard.vocab, hidden)};
  files.ReleasePages();  // of the embedding, the rows that are looked up come back
}

}  // namespace quire
