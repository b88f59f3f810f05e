#include "comm/model/architecture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/mixtures.h"
#include "comm/model/architectures/prediction_layer.h"
#include "comm/model/architectures/rotation.h"
#include "comm/model/quantization_config.h"
#include "comm/model/wrapper.h"

namespace quire {

namespace {

constexpr const Architecture* kArchitectures[] = {
    &architectures::kLlama,         &architectures::kMistral,      &architectures::kQwen2,
    &architectures::kQwen3,         &architectures::kMinistral,    &architectures::kMinistral3,
    &architectures::kPhi3,          &architectures::kGranite,      &architectures::kSmolLm3,
    &architectures::kOlmo2,         &architectures::kOlmo3,        &architectures::kGemma2,
    &architectures::kGemma3,        &architectures::kGlm,          &architectures::kGlm4,
    &architectures::kBloom,         &architectures::kMpt,          &architectures::kGptNeoX,
    &architectures::kGpt2,          &architectures::kOpt,          &architectures::kFalcon,
    &architectures::kStarCoder2,    &architectures::kCohere,       &architectures::kCohere2,
    &architectures::kPhi,           &architectures::kStableLm,     &architectures::kMixtral,
    &architectures::kQwen2Moe,      &architectures::kQwen3Moe,     &architectures::kOlmoe,
    &architectures::kGlm4Moe,       &architectures::kGptOss,       &architectures::kGraniteMoe,
    &architectures::kGemma,         &architectures::kPhiMoe,       &architectures::kDots1,
    &architectures::kMiniMaxM2,     &architectures::kErnie,        &architectures::kErnieMoe,
    &architectures::kGemma4,        &architectures::kQwen2Vl,      &architectures::kLfm2,
    &architectures::kQwen3Next,     &architectures::kQwen35Text,   &architectures::kQwen35MoeText,
    &architectures::kQwen25Vl,      &architectures::kQwen3Vl,      &architectures::kLfm2Moe,
    &architectures::kGraniteHybrid, &architectures::kBamba,        &architectures::kNemotronH,
    &architectures::kNemotronHMoe,  &architectures::kDeepseekV2,   &architectures::kDeepseekV3,
    &architectures::kGlm4MoeLite,   &architectures::kBert,         &architectures::kRoberta,
    &architectures::kXlmRoberta,    &architectures::kCamembert,    &architectures::kModernBert,
    &architectures::kSeedOss,       &architectures::kArcee,        &architectures::kExaone4,
    &architectures::kAfmoe,         &architectures::kHunyuanDense, &architectures::kHunyuanMoe,
    &architectures::kHunyuan3,      &architectures::kExaoneMoe,    &architectures::kSolarOpen,
    &architectures::kCwm,           &architectures::kLfm3,         &architectures::kElectra,
    &architectures::kDistilBert,    &architectures::kMpNet,        &architectures::kNomicBert,
    &architectures::kNew,           &architectures::kGte,          &architectures::kJinaBert,
    &architectures::kFalconH1,      &architectures::kLlama4,       &architectures::kMimoV2,
    &architectures::kJinaV3,
};

/// Returns the family whose member `name` equals `wanted`. Throws Error, which begins with `path`, when there is no
/// such family.
const Architecture& Find(const char* Architecture::*name, const std::string& wanted, const std::string& path) {
  std::vector<std::string> known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->*name == nullptr) continue;
    if (architecture->*name == wanted) return *architecture;
    known.emplace_back(architecture->*name);
  }
  if (name == &Architecture::hf) {
    for (const Wrapper& wrapper : Wrappers()) known.push_back(std::string(wrapper.hf) + " (text only)");
  }
  std::ranges::sort(known);
  Fail("{}: architecture \"{}\" is not supported; supported: {}", path, wanted.substr(0, 100), fmt::join(known, ", "));
}

const Architecture& ArchitectureOf(const ModelSpec& spec) {
  return Find(&Architecture::hf, spec.architecture, "model");
}

/// Returns how often a token is multiplied with the layer's weight of this role; 0 if the layer has no such weight.
int64_t TimesUsed(const ModelSpec& spec, Role role, size_t layer) {
  if (!HasRole(spec.layers[layer], role)) return 0;
  if (role == Role::kKey && spec.layers[layer].values_are_keys) return 2;
  return IsOfExpert(role) ? spec.mixture.experts_per_token : 1;
}

/// Returns how many numbers a row has if the matrix has one row for each unit of `axis`, or a column if it has one
/// column for each unit. Returns 0 if `axis` is neither.
int64_t NumbersAcross(const ModelSpec& spec, const WeightSpec& weight, Axis axis, size_t layer) {
  const auto l = static_cast<int64_t>(layer);
  return weight.rows == axis ? Extent(spec, weight.cols, l) : weight.cols == axis ? Extent(spec, weight.rows, l) : 0;
}

/// Returns true for a tensor that the model would use if every layer made its own keys and values, although some layers
/// read another layer's instead. Returns false if every layer makes its own.
bool WouldMakeKeys(const ModelSpec& spec, std::string_view tensor_name, Naming naming) {
  if (std::ranges::all_of(spec.layers, &LayerSpec::has_kv)) return false;
  ModelSpec apart = spec;
  apart.SetAll(&LayerSpec::kv_from_layer, -1);
  const std::vector<ExpectedTensor> tensors = ExpectedTensors(apart, WeightsOf(apart), naming);
  return std::ranges::find(tensors, tensor_name, &ExpectedTensor::name) != tensors.end();
}

ModelSpec ReadFamily(const HfConfig& config) {
  const Architecture& architecture = Find(&Architecture::hf, config.Text("model_type", ""), config.path());
  ModelSpec spec = architecture.from_hf(config);
  // The family's reader may have read quantization_config already, if the family has its own form of it.
  if (!config.WasRead("quantization_config")) spec.quants = StoredQuantsFromHf(config);
  config.RefuseWhatNobodyRead();
  if (spec.architecture.empty()) spec.architecture = architecture.hf;
  ReadReach(spec);
  if (const auto ids = config.TokenIds("eos_token_id"); !ids.empty()) spec.eos_token_ids = ids;
  return spec;
}

/// Reads the text model's settings from the configuration `whole` of a multimodal model.
ModelSpec ReadText(const Wrapper& wrapper, const HfConfig& whole) {
  const Json json = TextConfigOf(wrapper, whole);
  const HfConfig text(json, whole.path() + (whole.Has("text_config") ? ": text_config" : ""));
  ModelSpec spec = ReadFamily(text);
  spec.text_only = true;
  spec.tied_embeddings = TiesHead(wrapper, whole, text);
  if (!text.Has("quantization_config")) spec.quants = StoredQuantsFromHf(whole);
  if (whole.Has("text_config")) whole.RefuseWhatNobodyRead();
  if (const auto ids = whole.TokenIds("eos_token_id"); !ids.empty()) spec.eos_token_ids = ids;
  return spec;
}

}  // namespace

std::string WithoutInfinities(std::string json) {
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '\\' && quoted) {
      ++i;
    } else if (json[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (json.compare(i, word.size(), word) == 0) json.replace(i, word.size(), "null");
      }
    }
  }
  return json;
}

ModelSpec SpecFromHf(const std::string& config_json, const std::string& generation_json, const std::string& path) {
  const Json json = ParseJson(WithoutInfinities(config_json), path);
  const HfConfig config(json, path);
  const Wrapper* wrapper = FindWrapper(config.Text("model_type", ""));
  ModelSpec spec = wrapper != nullptr ? ReadText(*wrapper, config) : ReadFamily(config);
  if (!generation_json.empty()) {
    const std::string name = path + " (generation_config.json)";
    const Json generation = ParseJson(generation_json, name);
    const auto ids = HfConfig(generation, name).TokenIds("eos_token_id");
    if (!ids.empty()) spec.eos_token_ids = ids;
  }
  CheckSpec(spec, path);
  return spec;
}

ModelSpec SpecFromGguf(const GgufFile& gguf) {
  const auto& name = gguf.Get<std::string>("general.architecture");
  const Architecture& architecture = Find(&Architecture::gguf, name, gguf.path);
  const GgufConfig config(gguf, name);
  ModelSpec spec = architecture.from_gguf(config);
  config.RefuseWhatNobodyRead();
  if (spec.architecture.empty()) spec.architecture = architecture.hf;
  ReadReach(spec);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (const auto* id = gguf.Find<int64_t>(key)) {
      // -1 makes CheckSpec refuse the id.
      const TokenId token = *id >= 0 && *id < INT32_MAX ? static_cast<TokenId>(*id) : -1;
      if (std::ranges::find(spec.eos_token_ids, token) == spec.eos_token_ids.end()) spec.eos_token_ids.push_back(token);
    }
  }
  CheckSpec(spec, gguf.path);
  return spec;
}

void ReadLayout(const TensorMap& tensors, ModelSpec& spec) {
  if (spec.num_mixture_layers() == 0 || spec.mixture.file_rows != GateUpRows::kApart) return;
  const auto stacked = [](const auto& tensor) { return tensor.first.ends_with(architectures::kStackedEnd); };
  if (std::ranges::any_of(tensors, stacked)) spec.mixture.file_rows = GateUpRows::kInOrder;
}

PredictionForm PredictionFormOf(const ModelSpec& spec) { return ArchitectureOf(spec).prediction; }

std::vector<WeightSpec> WeightsOf(const ModelSpec& spec) {
  std::vector<WeightSpec> weights = ArchitectureOf(spec).weights(spec);
  if (spec.predicts) architectures::AddPredictionWeights(weights);
  return weights;
}

bool MayBePresent(const ModelSpec& spec, std::string_view tensor_name, Naming naming) {
  for (const char* read : {architectures::kRopeDivisors, architectures::kShortDivisors, architectures::kLongDivisors}) {
    if (tensor_name == read) return naming == Naming::kGguf;
  }
  if (tensor_name.ends_with(".rotary_emb.inv_freq")) return true;  // the configuration determines this tensor
  const auto is_buffer = [&](const char* end) { return naming == Naming::kHf && tensor_name.ends_with(end); };
  if (std::ranges::any_of(ArchitectureOf(spec).hf_buffers, is_buffer)) return true;
  const auto is_unused = [&](const char* begin) { return naming == Naming::kHf && tensor_name.starts_with(begin); };
  if (std::ranges::any_of(ArchitectureOf(spec).hf_unused, is_unused)) return true;
  if (architectures::IsOfPrediction(spec, tensor_name, naming)) return true;
  if (WouldMakeKeys(spec, tensor_name, naming)) return true;
  if (!spec.tied_embeddings) return false;
  // A model with tied embeddings may have a head tensor, which contains the embedding's numbers
  // (ModelFiles::SettleHead).
  ModelSpec untied = spec;
  untied.tied_embeddings = false;
  const auto weights = WeightsOf(untied);
  return std::ranges::any_of(weights, [&](const WeightSpec& weight) {
    return weight.role == Role::kHead && tensor_name == PatternOf(weight, naming);
  });
}

int64_t MatrixNumbersPerUnit(const ModelSpec& spec, Axis axis) {
  int64_t numbers = 0;
  for (const int64_t of_layer : LayerNumbersPerUnit(spec, axis)) numbers += of_layer;
  for (const WeightSpec& weight : WeightsOf(spec)) {
    if (weight.is_matrix() && !IsOfLayer(weight.role)) numbers += NumbersAcross(spec, weight, axis, 0);
  }
  return numbers;
}

std::vector<int64_t> LayerNumbersPerUnit(const ModelSpec& spec, Axis axis) {
  std::vector<int64_t> numbers(spec.layers.size());
  for (const WeightSpec& weight : WeightsOf(spec)) {
    if (!weight.is_matrix() || !IsOfLayer(weight.role)) continue;
    for (size_t layer = 0; layer < numbers.size(); ++layer)
      numbers[layer] += NumbersAcross(spec, weight, axis, layer) * TimesUsed(spec, weight.role, layer);
  }
  return numbers;
}

double ReadPart(const ModelSpec& spec, int64_t tokens) {
  if (spec.num_mixture_layers() == 0) return 1;
  const Mixture& m = spec.mixture;
  const auto chosen = static_cast<double>(m.experts_per_token), experts = static_cast<double>(m.experts);
  const double of_token = static_cast<double>(MatrixNumbersPerUnit(spec, Axis::kExpertMlp) * m.intermediate_size);
  const double others = static_cast<double>(LayerMatrixNumbers(spec) + spec.vocab_size * spec.hidden_size) - of_token;
  const double all = of_token / chosen * experts;
  const double read = all * (1 - std::pow(1 - chosen / experts, static_cast<double>(tokens)));
  return (others + read) / (others + all);
}

std::vector<int64_t> MatrixNumbersOfLayers(const ModelSpec& spec) {
  std::vector<int64_t> numbers(spec.layers.size());
  for (const WeightSpec& weight : WeightsOf(spec)) {
    if (!weight.is_matrix() || !IsOfLayer(weight.role)) continue;
    for (size_t layer = 0; layer < numbers.size(); ++layer) {
      const auto l = static_cast<int64_t>(layer);
      numbers[layer] +=
          Extent(spec, weight.rows, l) * Extent(spec, weight.cols, l) * TimesUsed(spec, weight.role, layer);
    }
  }
  return numbers;
}

int64_t LayerMatrixNumbers(const ModelSpec& spec) {
  const std::vector<int64_t> numbers = MatrixNumbersOfLayers(spec);
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

}  // namespace quire
