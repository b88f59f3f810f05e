// CudaDecoder's constant tables, apart from weights.
#include <algorithm>
#include <tuple>

#include "worker/cuda/decoder/cuda_decoder.h"
#include "worker/model/rope_table.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Copies a table to the device and waits. Does nothing for an empty table, such as the RoPE table of a model without
/// RoPE.
template <class T>
void CopyNow(Device& device, const std::vector<T>& from, T* to, const char* purpose) {
  if (from.empty()) return;
  const auto bytes = static_cast<int64_t>(from.size() * sizeof(T));
  const DeviceMemory staging = device.AllocateHost(bytes, purpose);
  std::copy(from.begin(), from.end(), staging.as<T>());
  device.CopyToDevice(to, staging.as(), bytes);
  device.Synchronize();
}

std::vector<float*> TakeRopes(const ModelSpec& spec, int64_t max_model_len, bool of_queries, Pieces& pieces) {
  std::vector<float*> tables;
  for (int64_t rope = 0; rope < std::ssize(spec.ropes); ++rope) {
    const bool there = !of_queries || spec.ropes[static_cast<size_t>(rope)].query_growth != 0;
    tables.push_back(there ? pieces.Take<float>(max_model_len * RotatedDims(spec, rope)) : nullptr);
  }
  return tables;
}

/// Reserves memory for count(kind) numbers, for each kind of attention.
template <class Count>
std::vector<int32_t*> TakeForKinds(const CudaDecoderSizes& sizes, const Count& count, Pieces& pieces) {
  std::vector<int32_t*> tables;
  for (const AttentionSizes& kind : sizes.kinds) tables.push_back(pieces.Take<int32_t>(count(kind)));
  return tables;
}

}  // namespace

CudaDecoder::Memory::Memory(const ModelSpec& spec, const CudaDecoderSizes& sizes, Pieces pieces)
    : ropes(TakeRopes(spec, sizes.max_model_len, false, pieces)),
      query_ropes(TakeRopes(spec, sizes.max_model_len, true, pieces)),
      head_start(TakeForKinds(
          sizes, [](const AttentionSizes& kind) { return std::ssize(kind.head_start); }, pieces)),
      kv_head_of(TakeForKinds(
          sizes, [](const AttentionSizes& kind) { return kind.head_start.back(); }, pieces)),
      alibi_slopes(spec.position == Position::kAlibi ? pieces.Take<float>(sizes.shard.heads.size()) : nullptr),
      head_bias(spec.head_bias ? pieces.Take<float>(sizes.logits_width) : nullptr),
      workspace(pieces.Take<float>(sizes.attention_workspace)),
      sinks(spec.attention_sinks ? pieces.Take<float>(spec.num_layers() * sizes.shard.heads.size()) : nullptr),
      router_bias(spec.mixture.router_bias ? pieces.Take<float>(spec.num_layers() * CudaWeights::RouterWidth(spec))
                                           : nullptr),
      correction(spec.mixture.correction_bias ? pieces.Take<float>(spec.num_layers() * spec.mixture.experts) : nullptr),
      expert_scales(spec.mixture.expert_scales ? pieces.Take<float>(spec.num_layers() * spec.mixture.experts)
                                               : nullptr),
      activations(spec, sizes.shard, sizes.dtype, sizes.max_tokens, sizes.max_draws, sizes.logits_width, pieces),
      experts(spec, sizes.shard, sizes.dtype, sizes.max_tokens, pieces),
      mixers(spec, sizes.shard, sizes.dtype, sizes.max_tokens, pieces),
      latents(spec, sizes.shard, sizes.dtype, sizes.max_tokens, pieces),
      bytes(pieces.taken()) {}

void CudaDecoder::LoadTables(const ModelFiles& files) {
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    const auto rope = static_cast<int64_t>(i);
    CopyNow(device_, RopeTable(spec_, rope, sizes_.max_model_len), memory_.ropes[i], "the table of rotations");
    if (memory_.query_ropes[i] == nullptr) continue;
    CopyNow(device_, RopeTable(spec_, rope, sizes_.max_model_len, true), memory_.query_ropes[i],
            "the table of rotations of queries");
  }
  if (memory_.alibi_slopes != nullptr) {
    const std::vector<float> slopes = AlibiSlopes(spec_);
    const Range heads = sizes_.shard.heads;
    CopyNow(device_, std::vector<float>(slopes.begin() + heads.begin, slopes.begin() + heads.end), memory_.alibi_slopes,
            "the slopes of ALiBi");
  }
  if (memory_.head_bias != nullptr) {
    std::vector<float> bias = ReadVector(files, sizes_.shard, Role::kHeadBias);
    bias.resize(static_cast<size_t>(sizes_.logits_width));
    CopyNow(device_, bias, memory_.head_bias, "the bias of the output head");
  }
  for (const auto& [role, to, width] :
       {std::tuple{Role::kRouterBias, memory_.router_bias, CudaWeights::RouterWidth(spec_)},
        {Role::kRouterCorrection, memory_.correction, spec_.mixture.experts},
        {Role::kExpertScale, memory_.expert_scales, spec_.mixture.experts},
        {Role::kSinks, memory_.sinks, sizes_.shard.heads.size()}}) {
    if (to == nullptr) continue;
    std::vector<float> all;
    for (int64_t layer = 0; layer < spec_.num_layers(); ++layer) {
      const std::vector<float> of_layer = ReadVector(files, sizes_.shard, role, layer);
      all.insert(all.end(), of_layer.begin(), of_layer.end());
      all.resize(static_cast<size_t>((layer + 1) * width));
    }
    CopyNow(device_, all, to, "what layers change scores by");
  }
  for (size_t kind = 0; kind < sizes_.kinds.size(); ++kind) {
    const std::vector<int32_t>& start = sizes_.kinds[kind].head_start;
    CopyNow(device_, start, memory_.head_start[kind], "the groups of heads");
    std::vector<int32_t> kv_head_of;
    for (size_t g = 0; g + 1 < start.size(); ++g)
      kv_head_of.resize(static_cast<size_t>(start[g + 1]), static_cast<int32_t>(g));
    CopyNow(device_, kv_head_of, memory_.kv_head_of[kind], "the groups of heads");
  }
}

}  // namespace quire
