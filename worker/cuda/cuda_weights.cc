#include "worker/cuda/cuda_weights.h"

#include "comm/error.h"
#include "kernels/cuda/skinny_gemm.h"
#include "worker/cuda/pieces.h"
#include "worker/cuda/uploader.h"
#include "worker/shard_rows.h"

namespace quire {

namespace {

/// Gives every weight its place; the same walk counts bytes and places weights.
struct Layout {
  Layout(const ModelConfig& c, const RankShard& shard, kernels::DType dtype, std::byte* memory) : pieces(memory) {
    const int64_t element = kernels::ByteSize(dtype), hidden = c.hidden_size, mlp = CudaWeights::MlpWidth(shard);
    const int64_t heads = shard.heads.size() * c.head_dim, kv = shard.kv_heads.size() * c.head_dim;
    const auto take = [&](int64_t rows, int64_t cols) -> void* { return pieces.Take(rows * cols * element); };
    for (int64_t i = 0; i < c.num_layers; ++i) {
      layers.push_back({take(1, hidden), take(1, hidden), take(heads + 2 * kv, hidden), take(hidden, heads),
                        take(2 * mlp, hidden), take(hidden, mlp)});
    }
    final_norm = take(1, hidden);
    embedding = take(c.vocab_size, hidden);
    if (!c.tied_embeddings) {
      lm_head = take(shard.vocab.size(), hidden);
    } else if (memory != nullptr) {
      lm_head = static_cast<std::byte*>(embedding) + shard.vocab.begin * hidden * element;
    }
  }

  Pieces pieces;
  std::vector<CudaLayerWeights> layers;
  void *final_norm, *embedding, *lm_head = nullptr;
};

std::vector<RowSource> From(const Tensor& tensor, const std::vector<int64_t>& rows) {
  std::vector<RowSource> sources;
  for (const int64_t row : rows) sources.push_back({&tensor, row});
  return sources;
}

void Append(std::vector<RowSource>& rows, const std::vector<RowSource>& more) {
  rows.insert(rows.end(), more.begin(), more.end());
}

/// Uploads the layers' weights of one rank.
class LayerLoader {
 public:
  LayerLoader(const ModelFiles& files, const RankShard& shard, Uploader& uploader)
      : files_(files), config_(files.config()), shard_(shard), uploader_(uploader) {}

  void Load(int64_t layer, const CudaLayerWeights& to) const {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto tensor = [&](const char* name) -> const Tensor& { return files_.Get(prefix + name + ".weight"); };
    const int64_t hidden = config_.hidden_size, dim = config_.head_dim, mlp = CudaWeights::MlpWidth(shard_);
    const Range all{0, hidden};
    uploader_.Upload(to.input_norm, {{&tensor("input_layernorm"), 0}}, all, hidden);
    uploader_.Upload(to.post_attention_norm, {{&tensor("post_attention_layernorm"), 0}}, all, hidden);

    const bool interleaved = config_.interleaved_rope_rows;
    auto qkv = From(tensor("self_attn.q_proj"), RowsOfHeads(shard_.heads, dim, interleaved));
    Append(qkv, From(tensor("self_attn.k_proj"), RowsOfHeads(shard_.kv_heads, dim, interleaved)));
    Append(qkv, From(tensor("self_attn.v_proj"), RowsOfHeads(shard_.kv_heads, dim, false)));
    uploader_.Upload(to.qkv, qkv, all, hidden);
    const Range head_cols{shard_.heads.begin * dim, shard_.heads.end * dim};
    uploader_.Upload(to.o, From(tensor("self_attn.o_proj"), RowsOf(all)), head_cols, head_cols.size());

    std::vector<RowSource> gate_up(static_cast<size_t>(2 * mlp));
    for (const bool up : {false, true}) {
      const Tensor& matrix = tensor(up ? "mlp.up_proj" : "mlp.gate_proj");
      for (int64_t column = 0; column < shard_.mlp.size(); ++column) {
        gate_up[static_cast<size_t>(kernels::SkinnyGateUpRow(column, up))] = {&matrix, shard_.mlp.begin + column};
      }
    }
    uploader_.Upload(to.gate_up, gate_up, all, hidden);
    uploader_.Upload(to.down, From(tensor("mlp.down_proj"), RowsOf(all)), shard_.mlp, mlp);
  }

 private:
  const ModelFiles& files_;
  const ModelConfig& config_;
  const RankShard& shard_;
  Uploader& uploader_;
};

}  // namespace

int64_t CudaWeights::Bytes(const ModelConfig& config, const RankShard& shard, kernels::DType dtype) {
  return Layout(config, shard, dtype, nullptr).pieces.taken();
}

CudaWeights::CudaWeights(const ModelFiles& files, const RankShard& shard, kernels::DType dtype, Device& device,
                         int threads, const std::function<void(int64_t, int64_t)>& progress)
    : memory_(device.Allocate(Bytes(files.config(), shard, dtype), "the model's weights")) {
  const ModelConfig& config = files.config();
  Layout layout(config, shard, dtype, memory_.as());
  layers = std::move(layout.layers);
  final_norm = layout.final_norm;
  embedding = layout.embedding;
  lm_head = layout.lm_head;

  Uploader uploader(device, dtype, threads, [&](int64_t done) { progress(done, memory_.bytes()); });
  const LayerLoader loader(files, shard, uploader);
  for (int64_t i = 0; i < config.num_layers; ++i) loader.Load(i, layers[static_cast<size_t>(i)]);
  const Range all{0, config.hidden_size};
  uploader.Upload(final_norm, {{&files.Get("model.norm.weight"), 0}}, all, config.hidden_size);
  uploader.Upload(embedding, From(files.Get("model.embed_tokens.weight"), RowsOf({0, config.vocab_size})), all,
                  config.hidden_size);
  if (!config.tied_embeddings) {
    uploader.Upload(lm_head, From(files.Get("lm_head.weight"), RowsOf(shard.vocab)), all, config.hidden_size);
  }
}

}  // namespace quire
