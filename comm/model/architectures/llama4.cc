// In Llama 4 (text), layers with RoPE see only their chunk of the context and normalize queries and keys after the
// rotation. The other layers see the whole context, and multiply queries by a factor that grows with the position. Some
// layers are mixtures of experts, in which the routing weights multiply the experts' inputs.
#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"
#include "comm/model/architectures/mixtures.h"
#include "comm/model/architectures/rotation.h"

namespace quire::architectures {

namespace {

constexpr int64_t kLlama4Chunk = 8192, kLlama4FullEvery = 4;
constexpr double kLlama4Theta = 500000, kLlama4Floor = 8192, kLlama4Growth = 0.1;

/// Adds a Rope for the layers that do not rotate. This Rope only multiplies queries by a factor that grows with their
/// position.
void LetQueriesGrow(double growth, double floor, ModelSpec& spec) {
  spec.ropes.push_back(
      {.original_max_position = floor, .query_growth = growth, .growth_offset = 1, .turning_pairs = 0});
  for (LayerSpec& layer : spec.layers) layer.rope = layer.rope < 0 ? 1 : 0;
}

void SetNorms(ModelSpec& spec) {
  spec.qk_norm = QkNorm::kHeads;
  spec.qk_norm_rotated = spec.qk_norm_plain = true;
  for (LayerSpec& layer : spec.layers) layer.qk_norm = layer.rope == 0;
}

void SetWeighedMixture(Mixture mixture, ModelSpec& spec) {
  mixture.shared_intermediate_size = mixture.intermediate_size;
  mixture.score = RouterScore::kSigmoid;
  mixture.weighs_inputs = true;
  spec.mixture = mixture;
}

/// Reads which layers see only their chunk.
void ReadChunks(const HfConfig& config, ModelSpec& spec) {
  constexpr const char* kKey = "attention_chunk_size";
  const bool is_null = config.json().contains(kKey) && !config.Has(kKey);
  const int64_t chunk = is_null ? 0 : config.Count(kKey, kLlama4Chunk);
  const std::vector<std::string> kinds = KindsOfLayers(config, spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    const bool chunked = kinds.empty() ? layer.rope == 0 : kinds[i] == "chunked_attention";
    if (!kinds.empty() && !chunked && kinds[i] != "full_attention")
      Fail("{}: layer_types: \"{}\" is not supported", config.path(), kinds[i].substr(0, 100));
    if (!kinds.empty() && chunked && chunk == 0) Fail("{}: {} is missing", config.path(), kKey);
    layer.chunk = chunked ? chunk : 0;
  }
}

/// Makes the MLP of every `step`-th layer a mixture, and those of the other layers dense. Throws Error if `step` is
/// below 1.
void SetEveryMixture(int64_t step, const std::string& path, ModelSpec& spec) {
  if (step < 1) Fail("{}: interleave_moe_layer_step = {} is out of range", path, step);
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].mixture = static_cast<int64_t>(i + 1) % step == 0;
}

/// Reads which layers are mixtures. If the file has the list `moe_layers`, `interleave_moe_layer_step` has no effect.
void ReadMixtureLayers(const HfConfig& config, ModelSpec& spec) {
  const std::vector<double> listed = config.Reals("moe_layers");
  const bool is_listed = config.Has("moe_layers");
  SetEveryMixture(config.Count("interleave_moe_layer_step", 1), config.path(), spec);
  for (size_t i = 0; is_listed && i < spec.layers.size(); ++i)
    spec.layers[i].mixture = std::ranges::find(listed, static_cast<double>(i)) != listed.end();
}

/// True when queries grow with their position. Published files say 4 where they mean true.
bool TunesTemperature(const HfConfig& config) {
  constexpr const char* kKey = "attn_temperature_tuning";
  if (!config.Has(kKey) || config.At(kKey).is_boolean()) return config.Flag(kKey, true);
  return config.Count(kKey) != 0;
}

ModelSpec Llama4FromHf(const HfConfig& config) {
  ModelSpec spec = LlamaFromHf(config, {.theta = kLlama4Theta});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.interleaved_rope_rows = true;
  const int64_t columns = config.Count("intermediate_size");
  spec.SetAll(&LayerSpec::intermediate_size, config.Count("intermediate_size_mlp", 2 * kLlama4Chunk));
  const std::vector<bool> rotates = RotatingLayersFromHf(config, spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].rope = rotates[i] ? 0 : -1;
  ReadChunks(config, spec);
  if (TunesTemperature(config))
    LetQueriesGrow(config.Real("attn_scale", kLlama4Growth), config.Real("floor_scale", kLlama4Floor), spec);
  if (config.Flag("use_qk_norm", true)) SetNorms(spec);
  ReadMixtureLayers(config, spec);
  config.Has("num_local_experts");  // ignored when no layer is a mixture
  if (spec.num_mixture_layers() > 0) {
    Mixture mixture = MixtureFromHf(config, "intermediate_size");
    mixture.intermediate_size = columns;
    SetWeighedMixture(mixture, spec);
  }
  return spec;
}

/// Reads a GGUF file. GGUF files state neither the chunks nor which layers rotate.
ModelSpec Llama4FromGguf(const GgufConfig& config) {
  ModelSpec spec = LlamaFromGguf(config);
  spec.interleaved_rope_rows = true;
  const bool chunked = !config.Has("attention.sliding_window") || config.Count("attention.sliding_window") != 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.window = 0;
    layer.rope = chunked && static_cast<int64_t>(i + 1) % kLlama4FullEvery == 0 ? -1 : 0;
    layer.chunk = chunked && layer.rope == 0 ? kLlama4Chunk : 0;
  }
  if (chunked) LetQueriesGrow(kLlama4Growth, kLlama4Floor, spec);
  const int64_t experts = config.Count("expert_count", 0);
  constexpr int64_t kExpertsWithoutNorms = 128;  // llama.cpp knows Maverick, which has no norms, by its experts
  if (experts != kExpertsWithoutNorms) SetNorms(spec);
  if (experts == 0) return spec;
  SetEveryMixture(config.Count("interleave_moe_layer_step"), config.path(), spec);
  if (spec.num_mixture_layers() > 0) SetWeighedMixture(MixtureFromGguf(config), spec);
  return spec;
}

constexpr const char *kLlama4ExpertsIn = "model.layers.{}.feed_forward.experts.gate_up_proj",
                     *kLlama4ExpertsOut = "model.layers.{}.feed_forward.experts.down_proj";

/// The names of a mixture's weights in files with separate matrices for each expert, such as quantised files.
constexpr MixtureNames kLlama4Names = {
    .router = "model.layers.{}.feed_forward.router.weight",
    .gate = "model.layers.{}.feed_forward.experts.{}.gate_proj.weight",
    .up = "model.layers.{}.feed_forward.experts.{}.up_proj.weight",
    .down = "model.layers.{}.feed_forward.experts.{}.down_proj.weight",
    .shared_gate = "model.layers.{}.feed_forward.shared_expert.gate_proj.weight",
    .shared_up = "model.layers.{}.feed_forward.shared_expert.up_proj.weight",
    .shared_down = "model.layers.{}.feed_forward.shared_expert.down_proj.weight",
};

/// Returns the weights. Files that have the experts of a layer in one tensor have their matrices as [columns, rows].
std::vector<WeightSpec> Llama4Weights(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = LlamaWeights(spec);
  Rename(weights, Role::kGate, kFeedForwardGate);
  Rename(weights, Role::kUp, kFeedForwardUp);
  Rename(weights, Role::kDown, kFeedForwardDown);
  const bool stacked = spec.mixture.file_rows == GateUpRows::kInOrder;
  MixtureNames names = kLlama4Names;
  if (stacked) {
    names.gate = names.up = kLlama4ExpertsIn;
    names.down = kLlama4ExpertsOut;
  }
  AddMixtureWeights(spec, names, weights);
  for (WeightSpec& weight : weights) {
    if (IsOfExpert(weight.role)) weight.transposed = stacked;
  }
  return weights;
}

}  // namespace

constexpr Architecture kLlama4 = {"llama4_text", "llama4", Llama4FromHf, Llama4FromGguf, Llama4Weights};

}  // namespace quire::architectures
