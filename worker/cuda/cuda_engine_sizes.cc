#include "worker/cuda/cuda_engine_sizes.h"

#include <algorithm>
#include <string>

#include "comm/base/error.h"
#include "kernels/cuda/paged/paged_decode.h"
#include "worker/cuda/cuda_decoder.h"

namespace quire {

namespace {

/// v1 keeps a context's scores in shared memory.
void CheckAttention(const ModelSpec& spec, const EngineSizes& sizes, AttentionBackend attention, const Device& device) {
  if (attention != AttentionBackend::kV1) return;
  const int64_t needed =
      kernels::PagedDecodeV1SharedBytes(sizes.max_model_len, spec.layers[0].head_dim, sizes.block_size);
  const int64_t missing = needed - device.shared_bytes_per_block(), most = sizes.max_model_len - (missing + 3) / 4;
  if (missing <= 0) return;
  Fail(
      "--attention-backend v1 takes contexts of at most {} tokens on this device, not {}: lower --max-model-len, or "
      "give v2",
      most, sizes.max_model_len);
}

/// What these kernels cannot do of the model, in one sentence; empty where they can all of it.
std::string Unsupported(const ModelSpec& spec) {
  if (spec.num_state_layers() > 0) {
    return fmt::format("the CUDA engine has no kernels for layers that keep states, which models of the kind {} have",
                       spec.architecture);
  }
  if (spec.attention_gate) return "the CUDA engine has no kernels for gates of attention";
  const int64_t dim = spec.layers[0].head_dim;
  const bool alike = std::ranges::all_of(spec.layers, [&](const LayerSpec& l) {
    return l.has_kv() && l.head_dim == dim && l.num_kv_heads == spec.layers[0].num_kv_heads;
  });
  if (!alike) return "the CUDA engine plans attention for layers whose heads are alike, the model's differ";
  if (dim != 64 && dim != 80 && dim != 96 && dim != 128 && dim != 256) {
    return fmt::format("the CUDA kernels know heads of 64, 80, 96, 128 and 256 numbers, the model's have {}", dim);
  }
  if (spec.hidden_size % 8 != 0) {
    return fmt::format("the CUDA kernels need a hidden size that is a multiple of 8, the model's is {}",
                       spec.hidden_size);
  }
  if (spec.vocab_size > kernels::kMaxVocab) {
    return fmt::format("the CUDA kernels draw from at most {} tokens, the model has {}", kernels::kMaxVocab,
                       spec.vocab_size);
  }
  if (const size_t windows = WindowsOf(spec).size(); windows > kMaxWindows) {
    return fmt::format("the CUDA engine plans attention for {} windows, and the model's layers have {}", kMaxWindows,
                       windows);
  }
  return "";
}

}  // namespace

void CheckCudaModel(const ModelSpec& spec, const EngineSizes& sizes) {
  if (const std::string problem = Unsupported(spec); !problem.empty()) Fail("{}: use --backend cpu", problem);
  const int block = sizes.block_size;
  if (block != 8 && block != 16 && block != 32 && block != 64) {
    Fail("the CUDA kernels know blocks of 8, 16, 32 and 64 tokens, not {}: change --block-size", block);
  }
}

CudaEngineSizes::CudaEngineSizes(const ModelSpec& spec, const EngineSizes& engine, const CudaEngineOptions& options,
                                 Rank rank, const Device& device)
    : shards(PlanShards(spec, engine.shares)), shard(shards[static_cast<size_t>(rank)]) {
  CheckAttention(spec, engine, options.attention, device);
  int64_t widest = 0;
  for (const RankShard& s : shards) widest = std::max(widest, s.vocab.size());
  logits_width = (widest + 7) / 8 * 8;
  max_sequences = PaddedRows(engine.max_running);
  max_tokens = std::max<int64_t>(engine.max_step_tokens, max_sequences);
  max_blocks = (engine.max_model_len + engine.block_size - 1) / engine.block_size;
  const auto head_dim = static_cast<int32_t>(spec.layers[0].head_dim);
  kernels::DecodeGrid grid{1, 2};
  const bool planned = options.attention == AttentionBackend::kAuto;
  if (planned && options.dtype != NumberType::kF32) {
    grid = kernels::ChooseDecodeGrid({device.num_sms(), device.shared_bytes_per_sm(), device.shared_bytes_per_block()},
                                     options.dtype, CachedType(options), head_dim);
  }
  decode_stages = grid.stages;
  builder.decode_work = {grid.num_ctas,
                         static_cast<int32_t>(max_sequences * kernels::NumHeadTiles(shard.layer(0).head_start))};
  builder.block_size = engine.block_size;
  builder.windows = WindowsOf(spec);
  builder.head_start = shard.layer(0).head_start;
  builder.tile_rows = kernels::PrefillTileRows(options.dtype, head_dim);
  builder.prefill_tiles =
      kernels::PrefillTileCapacity(max_tokens, max_sequences, shard.heads.size(), builder.tile_rows);
  builder.decodes_as_chunks = planned && options.dtype == NumberType::kF32;
  builder.unplanned_context = planned ? 0 : engine.max_model_len;
  decode_workspace = builder.decode_work.WorkspaceFloats(head_dim);
  if (options.attention == AttentionBackend::kV2) {
    decode_workspace =
        kernels::DecodeWorkspaceFloats(engine.max_model_len, max_sequences, shard.heads.size(), head_dim);
  }
}

}  // namespace quire
