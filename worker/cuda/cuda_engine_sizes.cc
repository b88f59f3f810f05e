#include "worker/cuda/cuda_engine_sizes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "comm/base/error.h"
#include "kernels/cuda/latent/latent_attention.h"
#include "kernels/cuda/paged/paged_decode.h"
#include "kernels/state_view.h"
#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/model/state_layout.h"

namespace quire {

namespace {

/// The largest head_dim that DecodeAttention supports; larger heads use v1 or v2.
constexpr int64_t kMostPlannedDims = 256;

/// Throws Error when v1 or v2 is chosen for a model with latents, or when v1 is chosen and the scores of the longest
/// context do not fit into its shared memory.
void CheckAttention(const ModelSpec& spec, const EngineSizes& sizes, AttentionBackend attention, const Device& device) {
  const bool is_baseline = attention == AttentionBackend::kV1 || attention == AttentionBackend::kV2;
  if (spec.latent.rank > 0 && is_baseline)
    FailSettings("--attention-backend v1 and v2 know no latent attention: leave the flag out");
  if (attention != AttentionBackend::kV1) return;
  const int64_t needed = kernels::PagedDecodeV1SharedBytes(sizes.max_model_len, LargestHead(spec), sizes.block_size);
  const int64_t missing = needed - device.shared_bytes_per_block(), most = sizes.max_model_len - (missing + 3) / 4;
  if (missing <= 0) return;
  FailSettings(
      "--attention-backend v1 takes contexts of at most {} tokens on this device, not {}: lower --max-model-len, or "
      "give v2",
      most, sizes.max_model_len);
}

/// Returns a sentence about sizes of latent attention that the CUDA kernels do not support; empty if they support all
/// sizes.
std::string UnsupportedLatents(const LatentAttention& latent) {
  for (const int64_t size : {latent.rank, latent.query_rank, latent.key_dim, latent.rotated_dim, latent.value_dim}) {
    if (size % 8 != 0)
      return fmt::format("the CUDA kernels need sizes of latents that are multiples of 8, not {}", size);
  }
  if (latent.rank <= kernels::kMostLatentRank && latent.rank + latent.rotated_dim <= kernels::kMostLatentHeadSize)
    return "";
  return fmt::format(
      "the CUDA kernels know latents of at most {} numbers, and {} with what rotates; the model's have {} "
      "and {}",
      kernels::kMostLatentRank, kernels::kMostLatentHeadSize, latent.rank, latent.rank + latent.rotated_dim);
}

/// Returns a sentence about a feature of the model that the CUDA kernels lack; empty if they support the model.
std::string Unsupported(const ModelSpec& spec) {
  if (spec.bidirectional) {
    return fmt::format("the CUDA engine computes no encoders, such as models of the kind {}", spec.architecture);
  }
  if (spec.latent.rank > 0) {
    if (const std::string problem = UnsupportedLatents(spec.latent); !problem.empty()) return problem;
  }
  if (std::ranges::find(spec.layers, Mixer::kAttentionAndStateSpace, &LayerSpec::mixer) != spec.layers.end())
    return "the CUDA engine computes no layers with attention and a state space side by side";
  if (std::ranges::any_of(spec.layers, [](const LayerSpec& l) { return l.value_size() != l.head_dim; }))
    return "the CUDA kernels know no values of another size than keys";
  if (spec.scales != ProductScales()) return "the CUDA engine multiplies no results of products by factors";
  if (spec.num_state_layers() > 0 && spec.recurrence.norm != StateNorm::kAfterGate)
    return "the CUDA engine norms state spaces after their gates only";
  if (spec.chunk() > 0) return "the CUDA kernels know no attention within chunks of the context";
  if (spec.qk_norm_plain) return "the CUDA kernels know no norms of queries and keys without weights";
  if (spec.mixture.weighs_inputs) return "the CUDA engine weighs the outputs of experts, not their inputs";
  if (spec.recurrence.channels % kMlpUnit != 0) {
    return fmt::format("the CUDA kernels need convolutions of channels that are a multiple of {}, the model has {}",
                       kMlpUnit, spec.recurrence.channels);
  }
  if (const Recurrence& r = spec.recurrence; r.key_dim > kernels::kMaxStateKeyDim || r.value_dim % 8 != 0) {
    return fmt::format(
        "the CUDA kernels know heads whose states are of at most {} rows and a multiple of 8 columns, the model's are "
        "of {} and {}",
        kernels::kMaxStateKeyDim, r.key_dim, r.value_dim);
  }
  for (const LayerSpec& layer : spec.layers) {
    constexpr int64_t kHeads[] = {64, 80, 96, 128, 256, 512};
    const bool is_plain = layer.has_attention() && spec.latent.rank == 0;
    if (!is_plain || std::ranges::find(kHeads, layer.head_dim) != std::end(kHeads)) continue;
    return fmt::format("the CUDA kernels know heads of {} numbers, the model's have {}", fmt::join(kHeads, ", "),
                       layer.head_dim);
  }
  if (spec.hidden_size % 8 != 0) {
    return fmt::format("the CUDA kernels need a hidden size that is a multiple of 8, the model's is {}",
                       spec.hidden_size);
  }
  if (spec.vocab_size > kernels::kMaxVocab) {
    return fmt::format("the CUDA kernels draw from at most {} tokens, the model has {}", kernels::kMaxVocab,
                       spec.vocab_size);
  }
  if (spec.layer_input_size % 8 != 0) {
    return fmt::format("the CUDA kernels need inputs of layers that are multiples of 8, the model's are {}",
                       spec.layer_input_size);
  }
  if (const size_t kinds = KindsOf(spec).size(); kinds > kMaxAttentionKinds) {
    return fmt::format(
        "the CUDA engine plans attention for {} kinds of windows and heads, and the model's layers have {}",
        kMaxAttentionKinds, kinds);
  }
  return "";
}

}  // namespace

void CheckCudaModel(const ModelSpec& spec, const EngineSizes& sizes) {
  if (const std::string problem = Unsupported(spec); !problem.empty()) FailSettings("{}: use --backend cpu", problem);
  const int block = sizes.block_size;
  if (block != 8 && block != 16 && block != 32 && block != 64) {
    FailSettings("the CUDA kernels know blocks of 8, 16, 32 and 64 tokens, not {}: change --block-size", block);
  }
}

CudaEngineSizes::CudaEngineSizes(const ModelSpec& spec, const EngineSizes& engine, const CudaEngineOptions& options,
                                 Rank rank, const Device& device)
    : shards(PlanShards(spec, engine.shares, engine.compute.expert_parallel)),
      shard(shards[static_cast<size_t>(rank)]) {
  CheckAttention(spec, engine, options.attention, device);
  int64_t widest = 0;
  for (const RankShard& s : shards) widest = std::max(widest, s.vocab.size());
  logits_width = (widest + 7) / 8 * 8;
  max_sequences = PaddedRows(engine.max_running);
  max_tokens = std::max<int64_t>(engine.max_step_tokens, max_sequences);
  max_blocks = (engine.max_model_len + engine.block_size - 1) / engine.block_size;
  const LatentAttention& latent = spec.latent;
  const bool has_latents = latent.rank > 0;
  const bool is_large = !has_latents && LargestHead(spec) > kMostPlannedDims && options.dtype != NumberType::kF32;
  const bool in_groups = !has_latents && options.attention == AttentionBackend::kWgmma;
  attention = options.attention == AttentionBackend::kWgmma ? AttentionBackend::kAuto : options.attention;
  if (attention == AttentionBackend::kAuto && is_large) attention = AttentionBackend::kV2;
  const bool planned = attention == AttentionBackend::kAuto;
  const int64_t block_bytes = CudaKvCache::BlockBytes(spec, shard, {CachedType(options), engine.block_size});
  state_bytes = StateLayout(spec, shard).bytes;
  state_blocks = (state_bytes + block_bytes - 1) / block_bytes;
  builder.state_blocks = state_blocks;
  builder.block_size = engine.block_size;
  const auto latent_dims = static_cast<int32_t>(LargestHead(spec)), latent_rank = static_cast<int32_t>(latent.rank);
  const bool in_tiles = has_latents ? kernels::HasLatentTiles(options.dtype, latent_dims, latent_rank)
                                    : options.dtype != NumberType::kF32;
  builder.decodes_as_chunks = planned && !in_tiles;
  builder.unplanned_context = planned ? 0 : engine.max_model_len;
  attention_workspace = 0;
  for (const AttentionKind& kind : KindsOf(spec)) {
    const auto layer = std::ranges::find(spec.layers, kind, KindOf) - spec.layers.begin();
    const auto head_dim = static_cast<int32_t>(kind.head_dim);
    const int32_t out_dim = has_latents ? latent_rank : head_dim;  // of a head's result
    const kernels::DecodeDevice sms{device.num_sms(), device.shared_bytes_per_sm(), device.shared_bytes_per_block()};
    kernels::DecodeGrid grid{1, 2};
    if (planned && in_tiles) {
      grid = has_latents ? kernels::ChooseLatentGrid(sms)
                         : kernels::ChooseDecodeGrid(sms, options.dtype, CachedType(options), head_dim);
    }
    AttentionSizes sizes{.window = static_cast<int32_t>(kind.window), .head_start = shard.layer(layer).head_start};
    sizes.decode_ctas = grid.num_ctas;
    sizes.decode_stages = grid.stages;
    sizes.tile_rows = has_latents ? kernels::LatentTileRows(options.dtype, head_dim, latent_rank, sms.shared_per_block)
                                  : kernels::PrefillTileRows(options.dtype, head_dim);
    sizes.in_groups = in_groups;
    int64_t floats = sizes.DecodeWork(max_sequences).WorkspaceFloats(out_dim);
    if (attention == AttentionBackend::kV2)
      floats = kernels::DecodeWorkspaceFloats(engine.max_model_len, max_sequences, shard.heads.size(), head_dim);
    if (in_tiles && (has_latents || head_dim <= kMostPlannedDims)) {
      sizes.split = {2 * device.num_sms(), static_cast<int32_t>(sizes.head_start.size()) - 1};
      floats = std::max(floats, sizes.split.WorkspaceFloats(sizes.tile_rows, out_dim));
    }
    attention_workspace = std::max(attention_workspace, floats);
    builder.attention.push_back(std::move(sizes));
  }
}

}  // namespace quire
