#include "comm/model/adapter_bases.h"

#include <algorithm>
#include <string_view>

#include "comm/base/parse_number.h"
#include "comm/model/architecture.h"

namespace quire {

namespace {

/// Families whose GGUF files store the two dimensions of a rotated pair side by side, while their safetensors store
/// them half a head apart.
constexpr std::string_view kTurnedInGguf[] = {"llama",   "mistral",    "ministral3", "mixtral",
                                              "granite", "granitemoe", "smollm3",    "arcee"};
/// Families whose GGUF files and safetensors have the same order of rows and columns.
constexpr std::string_view kAlike[] = {"qwen2",   "qwen3", "qwen2_moe", "qwen3_moe", "phi3",        "olmo2",
                                       "olmo3",   "olmoe", "gemma",     "gemma2",    "gemma3_text", "cohere",
                                       "cohere2", "dots1", "glm4_moe",  "seed_oss",  "exaone4",     "hunyuan_v1_dense",
                                       "afmoe"};

bool TakesAdapters(Role role) { return std::ranges::count(kAdapterRoles, role) > 0; }

void AddMatrices(const ModelSpec& spec, Naming naming, bool only_experts, BaseMatrices& matrices) {
  const std::vector<WeightSpec> weights = WeightsOf(spec);
  for (const ExpectedTensor& tensor : ExpectedTensors(spec, weights, naming)) {
    const auto weight = std::ranges::find(weights, tensor.role, &WeightSpec::role);
    const bool stacked = IsOfExpert(tensor.role) && tensor.expert == kAllExperts;
    const size_t first = stacked ? 1 : 0;
    if (!weight->is_matrix() || tensor.shape.size() != first + 2) continue;
    if (tensor.role == Role::kEmbedding || tensor.role == Role::kHead) continue;
    if (only_experts && tensor.expert == kAllExperts) continue;
    BaseMatrix& matrix = matrices[tensor.name];
    matrix.layer = tensor.layer;
    matrix.rows = tensor.shape[first + (weight->transposed ? 1 : 0)];
    matrix.cols = tensor.shape[first + (weight->transposed ? 0 : 1)];
    matrix.expert = tensor.expert;
    matrix.stacked = stacked;
    matrix.weights.push_back({tensor.role, PlacesOf(spec, weights, *weight, tensor.layer, naming)});
    matrix.takes_adapters = matrix.takes_adapters && TakesAdapters(tensor.role);
  }
}

}  // namespace

BaseMatrices BaseMatricesOf(const ModelSpec& spec, Naming naming) {
  BaseMatrices matrices;
  AddMatrices(spec, naming, false, matrices);
  if (naming == Naming::kHf && spec.mixture.file_rows == GateUpRows::kInOrder) {
    ModelSpec apart = spec;
    apart.mixture.file_rows = GateUpRows::kApart;
    AddMatrices(apart, naming, true, matrices);
  }
  return matrices;
}

std::optional<BaseMatrix> StackedExperts(const ModelSpec& spec, int64_t layer, bool downs) {
  if (layer < 0 || layer >= spec.num_layers() || !spec.layers[static_cast<size_t>(layer)].mixture) return {};
  const int64_t columns = spec.mixture.intermediate_size, hidden = spec.hidden_size;
  BaseMatrix matrix = {.layer = layer, .rows = columns, .cols = hidden, .stacked = true};
  if (downs) {
    matrix.rows = hidden;
    matrix.cols = columns;
    matrix.weights = {{Role::kExpertDown, {0, hidden, hidden, hidden}}};
  } else if (!spec.gated_mlp) {
    matrix.weights = {{Role::kExpertUp, {0, columns, columns, columns}}};
  } else {
    const int64_t both = matrix.rows = 2 * columns;
    const bool alternate = spec.mixture.file_rows == GateUpRows::kAlternating;
    const int64_t run = alternate ? 1 : columns, stride = alternate ? 2 : both;
    matrix.weights = {{Role::kExpertGate, {0, run, stride, both}}, {Role::kExpertUp, {run, run, stride, both}}};
  }
  return matrix;
}

std::vector<std::string> OtherModuleNames(const std::string& module) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {".mlp.router", ".block_sparse_moe.gate"},
      {".block_sparse_moe.router", ".block_sparse_moe.router.layer"},
      {".mlp.", ".block_sparse_moe."},
      {".block_sparse_moe.", ".mlp."}};
  std::vector<std::string> names;
  for (const auto& [from, to] : kNames) {
    if (const size_t at = module.find(from); at != std::string::npos)
      names.push_back(module.substr(0, at) + std::string(to) + module.substr(at + from.size()));
  }
  return names;
}

std::optional<int64_t> LayerNumberIn(const std::string& module) {
  for (size_t at = 0; at < module.size();) {
    const size_t end = std::min(module.find('.', at), module.size());
    if (const auto number = ParseNumber<int64_t>(module.substr(at, end - at))) return number;
    at = end + 1;
  }
  return {};
}

std::string TableName(const ModelSpec& spec, Role role, Naming naming) {
  ModelSpec untied = spec;
  untied.tied_embeddings = false;
  for (const WeightSpec& weight : WeightsOf(untied)) {
    if (weight.role == role) return PatternOf(weight, naming);
  }
  return "";
}

std::optional<ModelSpec> LayoutOfOtherFormat(const ModelSpec& spec, Naming of_other) {
  ModelSpec layout = spec;
  if (std::ranges::count(kTurnedInGguf, spec.architecture) > 0) {
    layout.interleaved_rope_rows = of_other == Naming::kGguf;
  } else if (std::ranges::count(kAlike, spec.architecture) == 0) {
    return {};
  }
  return layout;
}

}  // namespace quire
