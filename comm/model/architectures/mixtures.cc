#include "comm/model/architectures/mixtures.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/architectures/layer_norm_family.h"

namespace quire::architectures {

constexpr MixtureNames kQwenMixtureNames = {
    .router = "model.layers.{}.mlp.gate.weight",
    .gate = "model.layers.{}.mlp.experts.{}.gate_proj.weight",
    .up = "model.layers.{}.mlp.experts.{}.up_proj.weight",
    .down = "model.layers.{}.mlp.experts.{}.down_proj.weight",
    .shared_gate = "model.layers.{}.mlp.shared_expert.gate_proj.weight",
    .shared_up = "model.layers.{}.mlp.shared_expert.up_proj.weight",
    .shared_down = "model.layers.{}.mlp.shared_expert.down_proj.weight",
    .shared_scale = "model.layers.{}.mlp.shared_expert_gate.weight",
};

constexpr MixtureNames kBlockSparseMixtureNames = {
    .router = "model.layers.{}.block_sparse_moe.gate.weight",
    .gate = "model.layers.{}.block_sparse_moe.experts.{}.w1.weight",
    .up = "model.layers.{}.block_sparse_moe.experts.{}.w3.weight",
    .down = "model.layers.{}.block_sparse_moe.experts.{}.w2.weight",
};

constexpr MixtureNames kCorrectedMixtureNames = {
    .router = kQwenMixtureNames.router,
    .gate = kQwenMixtureNames.gate,
    .up = kQwenMixtureNames.up,
    .down = kQwenMixtureNames.down,
    .shared_gate = "model.layers.{}.mlp.shared_experts.gate_proj.weight",
    .shared_up = "model.layers.{}.mlp.shared_experts.up_proj.weight",
    .shared_down = "model.layers.{}.mlp.shared_experts.down_proj.weight",
    .correction = "model.layers.{}.mlp.gate.e_score_correction_bias",
};

constexpr MixtureNames kExpertBiasMixtureNames = {
    .router = "model.layers.{}.mlp.router.gate.weight",
    .gate = kQwenMixtureNames.gate,
    .up = kQwenMixtureNames.up,
    .down = kQwenMixtureNames.down,
    .shared_gate = kCorrectedMixtureNames.shared_gate,
    .shared_up = kCorrectedMixtureNames.shared_up,
    .shared_down = kCorrectedMixtureNames.shared_down,
    .correction = "model.layers.{}.mlp.expert_bias",
};

namespace {

Fusion FusionOf(GateUpRows rows) {
  return rows == GateUpRows::kAlternating ? Fusion::kAlternating
         : rows == GateUpRows::kInOrder   ? Fusion::kInOrder
                                          : Fusion::kNone;
}

}  // namespace

Mixture MixtureFromHf(const HfConfig& config, const char* intermediate_size) {
  Mixture mixture;
  mixture.experts = CountOf(config, {"num_experts", "num_local_experts", "n_routed_experts"}, 0);
  mixture.experts_per_token = config.Count("num_experts_per_tok");
  mixture.intermediate_size = config.Count(intermediate_size);
  return mixture;
}

Mixture MixtureFromGguf(const GgufConfig& config) {
  constexpr int64_t kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3;  // llama.cpp's gating functions
  Mixture mixture;
  mixture.experts = config.Count("expert_count");
  mixture.experts_per_token = config.Count("expert_used_count");
  mixture.intermediate_size = config.Has("expert_feed_forward_length") ? config.Count("expert_feed_forward_length")
                                                                       : config.Count("feed_forward_length");
  const int64_t gating = config.Count("expert_gating_func", kSoftmax);
  if (gating != kSoftmax && gating != kSigmoid && gating != kSoftmaxOfChosen) {
    Fail("{}: expert_gating_func = {} is not supported", config.path(), gating);
  }
  mixture.score = gating == kSigmoid           ? RouterScore::kSigmoid
                  : gating == kSoftmaxOfChosen ? RouterScore::kSoftmaxOfChosen
                                               : RouterScore::kSoftmax;
  mixture.renormalize = config.Flag("expert_weights_norm", false);
  mixture.scale = config.Real("expert_weights_scale", 1);
  mixture.groups = config.Count("expert_group_count", 1);
  mixture.groups_per_token = config.Count("expert_group_used_count", 1);
  return mixture;
}

void RequireSigmoid(const HfConfig& config) {
  // "noaux_tc" is not a score, but a way of choosing experts that uses sigmoids.
  const std::string score = config.Text("scoring_func", "sigmoid");
  if (score != "sigmoid" && score != "noaux_tc") {
    Fail("{}: scoring_func \"{}\" is not supported; supported: sigmoid", config.path(), score.substr(0, 100));
  }
}

Mixture CorrectedMixtureFromHf(const HfConfig& config, bool renormalize) {
  if (!config.WasRead("scoring_func")) RequireSigmoid(config);
  Mixture mixture = MixtureFromHf(config, "moe_intermediate_size");
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("n_shared_experts", 1), config.path());
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  mixture.renormalize = config.Flag("norm_topk_prob", renormalize);
  mixture.scale = config.Real("routed_scaling_factor", 1);
  mixture.groups = config.Count("n_group", 1);
  mixture.groups_per_token = config.Count("topk_group", 1);
  return mixture;
}

Mixture CorrectedMixtureFromGguf(const GgufConfig& config) {
  Mixture mixture = MixtureFromGguf(config);
  mixture.shared_intermediate_size = ColumnsOfShared(mixture, config.Count("expert_shared_count", 0), config.path());
  mixture.score = RouterScore::kSigmoid;
  mixture.correction_bias = true;
  return mixture;
}

int64_t ColumnsOfShared(const Mixture& mixture, int64_t count, const std::string& path) {
  int64_t columns = 0;
  if (count < 0 || __builtin_mul_overflow(mixture.intermediate_size, count, &columns)) {
    Fail("{}: {} shared experts are out of range", path, count);
  }
  return columns;
}

void SetMixture(ModelSpec& spec, const Mixture& mixture) {
  spec.mixture = mixture;
  for (LayerSpec& layer : spec.layers) layer.mixture = true;
}

void SetMixtureWhereSparse(const HfConfig& config, ModelSpec& spec, const Mixture& mixture) {
  const int64_t step = config.Count("decoder_sparse_step", 1);
  if (step < 1) Fail("{}: decoder_sparse_step = {} is out of range", config.path(), step);
  const std::vector<double> dense = config.Reals("mlp_only_layers");
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    spec.layers[i].mixture =
        (number + 1) % step == 0 && std::ranges::find(dense, static_cast<double>(i)) == dense.end();
  }
  if (spec.num_mixture_layers() > 0) spec.mixture = mixture;
}

void SetMixtureFrom(int64_t first, ModelSpec& spec, const Mixture& mixture, const std::string& path) {
  if (first < 0) Fail("{}: {} layers before those with experts", path, first);
  for (int64_t i = first; i < spec.num_layers(); ++i) spec.layers[static_cast<size_t>(i)].mixture = true;
  if (spec.num_mixture_layers() > 0) spec.mixture = mixture;
}

void SetMixtureWhereListed(const HfConfig& config, int64_t first, ModelSpec& spec, const Mixture& mixture) {
  constexpr const char* kKey = "mlp_layer_types";
  const std::vector<std::string> kinds = config.Texts(kKey);
  if (kinds.empty()) return SetMixtureFrom(first, spec, mixture, config.path());
  if (kinds.size() != spec.layers.size())
    Fail("{}: {} lists {} layers of {}", config.path(), kKey, kinds.size(), spec.layers.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != "dense" && kinds[i] != "sparse")
      Fail("{}: {}: \"{}\" is not supported", config.path(), kKey, kinds[i].substr(0, 100));
    spec.layers[i].mixture = kinds[i] == "sparse";
  }
  if (spec.num_mixture_layers() > 0) spec.mixture = mixture;
}

namespace {

/// Returns a family's names of a mixture's weights, for files with stacked experts.
MixtureNames Stacked(MixtureNames names) {
  if (names.router == kBlockSparseMixtureNames.router) names.router = kQwenMixtureNames.router;
  names.gate = names.up = kStackedGateUp;
  names.down = kStackedDown;
  return names;
}

}  // namespace

void AddMixtureWeights(const ModelSpec& spec, const MixtureNames& usual, std::vector<WeightSpec>& weights) {
  using enum Axis;
  const Mixture& m = spec.mixture;
  const bool stacked =
      spec.gated_mlp && m.file_rows == GateUpRows::kInOrder && std::string_view(usual.gate) != usual.up;
  const MixtureNames names = stacked ? Stacked(usual) : usual;
  if (spec.num_mixture_layers() == 0) return;
  if (spec.num_mixture_layers() == spec.num_layers()) {
    std::erase_if(weights, [](const WeightSpec& weight) { return IsOfDenseMlp(weight.role); });
  }
  std::vector<WeightSpec> mine = {{Role::kRouter, names.router, kExperts, kHidden}};
  if (m.router_bias) {
    mine.push_back({Role::kRouterBias, names.router_bias, kExperts, kOne});
  }
  if (m.correction_bias) {
    mine.push_back({Role::kRouterCorrection, names.correction, kExperts, kOne});
  }
  if (spec.gated_mlp) mine.push_back({Role::kExpertGate, names.gate, kExpertMlp, kHidden});
  mine.push_back({Role::kExpertUp, names.up, kExpertMlp, kHidden});
  mine.push_back({Role::kExpertDown, names.down, kHidden, kExpertMlp});
  if (m.expert_biases) {
    mine.push_back({Role::kExpertGateBias, names.gate_bias, kExpertMlp, kOne});
    mine.push_back({Role::kExpertUpBias, names.up_bias, kExpertMlp, kOne});
    mine.push_back({Role::kExpertDownBias, names.down_bias, kHidden, kOne});
  }
  for (WeightSpec& weight : mine) {
    if (!IsOfExpert(weight.role)) continue;
    weight.transposed = spec.transposed && weight.is_matrix();
    if (weight.rows == kExpertMlp) weight.fusion = FusionOf(m.file_rows);
  }
  if (m.shared_intermediate_size > 0) {
    const bool one = spec.gated_mlp && std::string_view(names.shared_gate) == names.shared_up;
    const Fusion fusion = one ? Fusion::kInOrder : Fusion::kNone;
    if (spec.gated_mlp) mine.push_back({Role::kSharedGate, names.shared_gate, kSharedMlp, kHidden, false, fusion});
    mine.push_back({Role::kSharedUp, names.shared_up, kSharedMlp, kHidden, false, fusion});
    mine.push_back({Role::kSharedDown, names.shared_down, kHidden, kSharedMlp});
  }
  if (m.shared_gate) {
    mine.push_back({Role::kSharedScale, names.shared_scale, kOne, kHidden});
  }
  if (m.expert_scales) mine.push_back({Role::kExpertScale, names.expert_scale, kExperts, kOne});
  if (m.normed_apart) {
    mine.insert(mine.end(), {{Role::kRouterNorm, names.router_norm, kHidden, kOne},
                             {Role::kExpertsNorm, names.experts_norm, kHidden, kOne},
                             {Role::kExpertsAfterNorm, names.experts_after_norm, kHidden, kOne},
                             {Role::kSharedAfterNorm, names.shared_after_norm, kHidden, kOne}});
  }
  weights.insert(weights.begin() + 1, mine.begin(), mine.end());
}

}  // namespace quire::architectures
