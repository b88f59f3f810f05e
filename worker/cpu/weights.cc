#include "worker/cpu/weights.h"

#include <cstring>

#include "comm/error.h"
#include "worker/shard_rows.h"

namespace quire {

kernels::Weight ModelWeights::CopyRows(const Tensor& tensor, const std::vector<int64_t>& rows, Range cols) {
  const kernels::Weight source = AsWeight(tensor);
  const kernels::WeightLayout layout = kernels::LayoutOf(source.type);
  const bool whole_blocks = cols.begin % layout.block_numbers == 0 && cols.end % layout.block_numbers == 0;
  kernels::Weight out{whole_blocks ? source.type : kernels::WeightType::kF32, nullptr,
                      static_cast<int64_t>(rows.size()), cols.size(), 0};
  out.row_bytes = kernels::RowBytes(out.type, out.cols);

  storage_.emplace_back(static_cast<size_t>(out.rows * out.row_bytes));
  bytes_ += out.rows * out.row_bytes;
  std::byte* to = storage_.back().data();
  out.data = to;
  std::vector<float> expanded(static_cast<size_t>(whole_blocks ? 0 : source.cols));
  for (const int64_t row : rows) {
    if (whole_blocks) {
      const std::byte* from = source.data + row * source.row_bytes + kernels::RowBytes(source.type, cols.begin);
      std::memcpy(to, from, static_cast<size_t>(out.row_bytes));
    } else {
      kernels::DecodeRow(source, row, 0, source.cols, expanded.data());
      std::memcpy(to, expanded.data() + cols.begin, static_cast<size_t>(out.row_bytes));
    }
    to += out.row_bytes;
  }
  return out;
}

kernels::Weight ModelWeights::Copy(const Tensor& tensor, Range rows, Range cols) {
  return CopyRows(tensor, RowsOf(rows), cols);
}

kernels::Weight ModelWeights::CopyHeads(const Tensor& tensor, Range heads, int64_t head_dim, bool interleaved) {
  return CopyRows(tensor, RowsOfHeads(heads, head_dim, interleaved), {0, tensor.cols()});
}

ModelWeights::ModelWeights(const ModelFiles& files, const RankShard& shard) {
  const ModelConfig& c = files.config();
  const Range hidden{0, c.hidden_size};
  const Range head_cols{shard.heads.begin * c.head_dim, shard.heads.end * c.head_dim};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}.", i);
    const auto tensor = [&](const char* name) -> const Tensor& { return files.Get(prefix + name + ".weight"); };
    LayerWeights layer;
    layer.input_norm = ReadVector(tensor("input_layernorm"));
    layer.post_attention_norm = ReadVector(tensor("post_attention_layernorm"));
    layer.q = CopyHeads(tensor("self_attn.q_proj"), shard.heads, c.head_dim, c.interleaved_rope_rows);
    layer.k = CopyHeads(tensor("self_attn.k_proj"), shard.kv_heads, c.head_dim, c.interleaved_rope_rows);
    layer.v = CopyHeads(tensor("self_attn.v_proj"), shard.kv_heads, c.head_dim, false);
    layer.o = Copy(tensor("self_attn.o_proj"), hidden, head_cols);
    layer.gate = Copy(tensor("mlp.gate_proj"), shard.mlp, hidden);
    layer.up = Copy(tensor("mlp.up_proj"), shard.mlp, hidden);
    layer.down = Copy(tensor("mlp.down_proj"), hidden, shard.mlp);
    layers.push_back(std::move(layer));
  }
  final_norm = ReadVector(files.Get("model.norm.weight"));
  embedding = AsWeight(files.Get("model.embed_tokens.weight"));
  lm_head = Copy(files.Get(c.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), shard.vocab, hidden);
}

}  // namespace quire
