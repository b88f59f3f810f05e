#include "comm/model/architectures/prediction_layer.h"

#include <algorithm>
#include <span>
#include <vector>

#include "comm/base/error.h"
#include "comm/model/architecture.h"

namespace quire::architectures {

namespace {

/// A prefix of tensor names in the files, with {} for the count of the model's own layers, and the prefix that replaces
/// it. `to` is null for tensors that are removed: those of the model's own layers and unused ones.
struct Renaming {
  const char *from, *to;
};

/// The prefixes in HF files of the form PredictionForm::kLikeDeepseek. The first prefix that fits a name is used.
constexpr Renaming kLikeDeepseek[] = {
    {"model.layers.{}.enorm.", "prediction.token_norm."},
    {"model.layers.{}.hnorm.", "prediction.hidden_norm."},
    {"model.layers.{}.eh_proj.", "prediction.in."},
    {"model.layers.{}.shared_head.norm.", "model.norm."},
    {"model.layers.{}.shared_head.head.", nullptr},
    {"model.layers.{}.embed_tokens.", nullptr},
    {"model.layers.{}.", "model.layers.0."},
    {"model.layers.", nullptr},
    {"model.norm.", nullptr},
};
constexpr Renaming kLikeQwen[] = {
    {"mtp.pre_fc_norm_embedding.", "prediction.token_norm."},
    {"mtp.pre_fc_norm_hidden.", "prediction.hidden_norm."},
    {"mtp.fc.", "prediction.in."},
    {"mtp.norm.", "model.norm."},
    {"mtp.layers.0.", "model.layers.0."},
    {"mtp.", nullptr},
    {"model.layers.", nullptr},
    {"model.norm.", nullptr},
};
constexpr Renaming kInGguf[] = {
    {"blk.{}.nextn.enorm.", "prediction.token_norm."},
    {"blk.{}.nextn.hnorm.", "prediction.hidden_norm."},
    {"blk.{}.nextn.eh_proj.", "prediction.in."},
    {"blk.{}.nextn.shared_head_norm.", "output_norm."},
    {"blk.{}.nextn.", nullptr},
    {"blk.{}.", "blk.0."},
    {"blk.", nullptr},
    {"output_norm.", nullptr},
};

std::span<const Renaming> RenamingsOf(PredictionForm form, Naming naming) {
  if (form != PredictionForm::kLikeDeepseek && form != PredictionForm::kLikeQwen) return {};
  if (naming == Naming::kGguf) return kInGguf;
  return form == PredictionForm::kLikeQwen ? std::span<const Renaming>(kLikeQwen) : kLikeDeepseek;
}

std::string WithNumber(std::string text, int64_t number) {
  if (const size_t place = text.find("{}"); place != std::string::npos) text.replace(place, 2, std::to_string(number));
  return text;
}

/// Renames the tensors of the first prediction layer, and removes the tensors of all layers of the model. Returns false
/// when the files lack the prediction layer's input projection (prediction.in).
bool RenameTensors(std::span<const Renaming> renamings, int64_t num_layers, TensorMap& tensors) {
  TensorMap brought;
  bool found = false;
  for (auto& [name, tensor] : tensors) {
    std::string now = name;
    for (const auto& [from, to] : renamings) {
      const std::string begin = WithNumber(from, num_layers);
      if (!name.starts_with(begin)) continue;
      now = to == nullptr ? "" : to + name.substr(begin.size());
      found = found || (to != nullptr && std::string_view(to) == "prediction.in.");
      break;
    }
    if (!now.empty()) brought.emplace(now, std::move(tensor));
  }
  tensors = std::move(brought);
  return found;
}

/// Returns the spec of a model that consists of the prediction layer. The layer's attention is like that of the model's
/// last attention layer.
ModelSpec OneLayerOf(ModelSpec spec) {
  const auto last = std::ranges::find_if(spec.layers.rbegin(), spec.layers.rend(), &LayerSpec::has_attention);
  spec.layers = {*last};
  spec.layers[0].mlp = true;
  spec.recurrence = {};
  spec.predicts = true;
  return spec;
}

/// Makes the prediction layer's MLP a mixture of experts if the files have a router for it, and a dense MLP otherwise.
void SettleMixture(Naming naming, const TensorMap& tensors, ModelSpec& spec) {
  if (spec.mixture.experts == 0) return;
  spec.layers[0].mixture = true;
  const std::vector<WeightSpec> weights = WeightsOf(spec);
  const auto router = std::ranges::find(weights, Role::kRouter, &WeightSpec::role);
  const std::string name = router == weights.end() ? "" : WithNumber(PatternOf(*router, naming), 0);
  if (tensors.contains(name)) return;
  spec.layers[0].mixture = false;
  spec.mixture = {};
}

}  // namespace

bool IsOfPrediction(const ModelSpec& spec, std::string_view tensor_name, Naming naming) {
  if (PredictionFormOf(spec) == PredictionForm::kNone || spec.predicts) return false;
  const bool hf = naming == Naming::kHf;
  const std::string past_last = fmt::format("{}.{}.", hf ? "model.layers" : "blk", spec.num_layers());
  return tensor_name.starts_with(past_last) || tensor_name.starts_with("model.mtp_") ||
         (hf && tensor_name.starts_with("mtp."));
}

void AddPredictionWeights(std::vector<WeightSpec>& weights) {
  const auto add = [&](Role role, const char* name, Axis rows, Axis cols) {
    weights.push_back({.role = role, .hf = name, .rows = rows, .cols = cols, .gguf = name});
  };
  add(Role::kPredictionTokenNorm, "prediction.token_norm.weight", Axis::kHidden, Axis::kOne);
  add(Role::kPredictionHiddenNorm, "prediction.hidden_norm.weight", Axis::kHidden, Axis::kOne);
  add(Role::kPredictionIn, "prediction.in.weight", Axis::kHidden, Axis::kJoined);
}

int64_t PredictionBytes(const ModelSpec& spec, const TensorMap& tensors, Naming naming) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    if (IsOfPrediction(spec, name, naming)) bytes += static_cast<int64_t>(tensor.data.size() + tensor.scales.size());
  }
  return bytes;
}

void TakePredictionLayer(Naming naming, const std::string& path, TensorMap& tensors, ModelSpec& spec) {
  const std::span<const Renaming> renamings = RenamingsOf(PredictionFormOf(spec), naming);
  if (renamings.empty()) {
    Fail(
        "{}: the prediction layers of a {} are not supported; supported: those of DeepSeek-V3, GLM-4.5 and later, "
        "Qwen3-Next and Qwen3.5",
        path, spec.architecture);
  }
  if (!RenameTensors(renamings, spec.num_layers(), tensors))
    Fail("{}: the files have no layers that predict further tokens (multi-token prediction, MTP)", path);
  spec = OneLayerOf(std::move(spec));
  SettleMixture(naming, tensors, spec);
  CheckSpec(spec, path);
}

}  // namespace quire::architectures
