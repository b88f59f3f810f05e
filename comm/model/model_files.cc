#include "comm/model/model_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "comm/model/architectures/prediction_layer.h"
#include "comm/model/formats/gguf_parts.h"
#include "comm/model/formats/mxfp4.h"
#include "comm/model/formats/quantized_matrices.h"
#include "comm/model/formats/safetensors.h"
#include "comm/model/model_tree.h"
#include "comm/model/tensor_mismatch.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxJsonBytes = 64 << 20;
constexpr const char* kConfig = "config.json";

/// True when the shapes are equal except for harmless differences. A matrix of one row may be stored as a vector, and a
/// vector as a matrix of one row. GGUF files store vectors of heads as columns, and norms of groups as a row for each
/// group.
bool SaySame(const std::vector<int64_t>& found, const std::vector<int64_t>& wanted, Naming naming) {
  const auto is_row = [](const std::vector<int64_t>& matrix, const std::vector<int64_t>& vector) {
    return matrix.size() == 2 && matrix[0] == 1 && vector == std::vector{matrix[1]};
  };
  if (found == wanted || is_row(wanted, found) || is_row(found, wanted)) return true;
  return naming == Naming::kGguf && found.size() == 2 && wanted == std::vector{found[0] * found[1]};
}

/// True when the engines can read the tensor as this weight. Types that occur only in parts of quantised matrices are
/// no types of weights. A matrix with separate scales is read row by row; the engines cannot read embeddings, position
/// tables, vectors and transposed matrices in this way.
bool IsWeight(const Tensor& tensor, const WeightSpec& weight) {
  if (tensor.scaled == nullptr) return IsWeightType(tensor.type);
  return weight.is_matrix() && !weight.transposed && weight.role != Role::kEmbedding &&
         weight.role != Role::kLayerEmbedding && weight.role != Role::kPositions;
}

/// Returns true for a bias of zeros in a GPTQ model. Some GPTQ writers gave every quantised matrix a bias, so such a
/// bias is harmless if the model has none.
bool IsUnusedBias(const ModelSpec& spec, std::string_view name, const Tensor& tensor) {
  return spec.quants.method == StoredQuants::Method::kGptq && name.ends_with(".bias") && IsFloat(tensor.type) &&
         std::ranges::all_of(tensor.data, [](std::byte b) { return b == std::byte{0}; });
}

/// Returns the safetensors files of a directory: model.safetensors if it exists, even beside an index; otherwise the
/// files that the index names. Throws Error when the directory has neither.
std::vector<std::string> SafetensorsNames(const ModelTree& tree, const std::string& directory) {
  constexpr const char *kWhole = "model.safetensors", *kIndex = "model.safetensors.index.json";
  if (tree.Has(kWhole)) return {kWhole};
  if (!tree.Has(kIndex)) Fail("{}: holds neither {} nor {}", directory, kWhole, kIndex);
  const std::string index_path = tree.PathOf(kIndex);
  const Json index =
      ParseJson(tree.ReadText(kIndex, kMaxJsonBytes), index_path, {.max_depth = 8, .max_nodes = 2'000'000});
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    Fail("{}: weight_map is missing", index_path);
  }
  std::set<std::string> names;
  for (const Json& name : index["weight_map"]) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (text.empty() || text.find('/') != std::string::npos || text.starts_with(".")) {
      Fail("{}: \"{}\" is not a plain file name", index_path, text.substr(0, 100));
    }
    names.insert(text);
  }
  return {names.begin(), names.end()};
}

/// Returns the text of config.json. Older models of ModelOpt describe the quantisation in a separate file. If
/// config.json has no quantization_config, that file's content becomes its quantization_config.
std::string ConfigText(const ModelTree& tree) {
  constexpr const char *kOwn = "hf_quant_config.json", *kKey = "quantization_config", *kInner = "quantization";
  std::string text = tree.ReadText(kConfig, kMaxJsonBytes);
  if (!tree.Has(kOwn)) return text;
  const Json own = ParseJson(tree.ReadText(kOwn, kMaxJsonBytes), tree.PathOf(kOwn));
  const bool fits = own.is_object() && own.contains(kInner) && own[kInner].is_object();
  if (!fits) Fail("{}: {} is missing", tree.PathOf(kOwn), kInner);
  Json config = ParseJson(WithoutInfinities(text), tree.PathOf(kConfig));
  if (!config.is_object() || (config.contains(kKey) && !config[kKey].is_null())) return text;
  config[kKey] = own[kInner];
  config[kKey]["quant_method"] = "modelopt";
  return config.dump();
}

ModelSpec SpecOf(const ModelTree& tree) {
  constexpr const char* kGeneration = "generation_config.json";
  return SpecFromHf(ConfigText(tree), tree.Has(kGeneration) ? tree.ReadText(kGeneration, kMaxJsonBytes) : "",
                    tree.PathOf(kConfig));
}

/// True when the model may lack a head, because sentence-transformers reads it, or because config.json names a model
/// class without one.
bool OnlyEmbeds(const ModelTree& tree) {
  if (tree.Has("modules.json")) return true;
  const Json json = ParseJson(tree.ReadText(kConfig, kMaxJsonBytes), tree.PathOf(kConfig));
  const auto names = HfConfig(json, tree.PathOf(kConfig)).Texts("architectures");
  return !names.empty() && names.front().ends_with("Model");
}

}  // namespace

ModelFiles ModelFiles::Open(const std::string& path, LoadFormat load_format, const std::vector<std::string>& adapters) {
  ModelFiles model;
  model.path_ = path;
  model.OpenPart(false, load_format);
  for (const std::string& adapter : adapters) model.adapters_.push_back(AdapterFiles::Open(adapter, model));
  return model;
}

ModelFiles ModelFiles::OpenPrediction(const std::string& path, LoadFormat load_format) {
  ModelFiles layer;
  layer.path_ = path;
  layer.OpenPart(true, load_format);
  return layer;
}

void ModelFiles::OpenPart(bool prediction, LoadFormat load_format) {
  std::error_code ignored;
  if (load_format == LoadFormat::kDummy) {
    const ModelTree tree(path_);
    spec_ = SpecOf(tree);
    MakeUp(tree, prediction);
  } else if (fs::is_directory(path_, ignored)) {
    OpenHf(prediction);
  } else if (fs::exists(path_, ignored)) {
    OpenGguf(prediction);
  } else {
    Fail("{}: no such model; give an HF directory or a GGUF file{}", path_,
         path_.starts_with("/models/") ? " (the example topologies' /models/... stands for a path of your own)" : "");
  }
  kv_scales_.resize(static_cast<size_t>(spec_.num_layers()));
  PlaceTensors();
  const Tensor& query = Get(Role::kQuery, spec_.first_attention_layer());
  half_ = (query.scaled == nullptr ? query.type : query.scaled->scales.type) == NumberType::kF16;
  for (const auto& [name, tensor] : tensors_)
    total_bytes_ += static_cast<int64_t>(tensor.data.size() + tensor.scales.size());
}

void ModelFiles::TakePart(bool prediction) {
  if (prediction) return architectures::TakePredictionLayer(naming(), path_, tensors_, spec_);
  const int64_t bytes = architectures::PredictionBytes(spec_, tensors_, naming());
  if (bytes == 0) return;
  notes_.push_back(
      fmt::format("{}: the files have layers that predict further tokens, {:.1f} MiB: they are used by "
                  "--speculative-config '{{\"method\": \"mtp\"}}' alone",
                  path_, static_cast<double>(bytes) / (1 << 20)));
}

void ModelFiles::OpenHf(bool prediction) {
  const ModelTree tree(path_);
  spec_ = SpecOf(tree);
  for (const std::string& name : SafetensorsNames(tree, path_)) {
    files_.emplace_back(tree.Open(name));
    for (auto& [tensor_name, tensor] : ReadSafetensors(files_.back().bytes(), files_.back().path())) {
      if (!tensors_.emplace(tensor_name, std::move(tensor)).second) {
        Fail("{}: tensor {} is in two files", path_, tensor_name);
      }
    }
  }
  OpenTokenLayers();
  BringNames();
  TakePart(prediction);
  JoinMxFp4(tensors_, path_);
  kv_scales_ = TakeKvScales(tensors_, spec_.num_layers(), path_);
  JoinQuantized(tensors_, spec_.quants, path_);
  DropMasks(tensors_);
  ReadLayout(tensors_, spec_);
  SettleHead(OnlyEmbeds(tree));
}

void ModelFiles::OpenGguf(bool prediction) {
  gguf_ = ReadGgufParts(path_, files_);
  spec_ = SpecFromGguf(*gguf_);
  tensors_ = gguf_->tensors;
  TakePart(prediction);
}

void ModelFiles::PlaceTensors() {
  weights_ = WeightsOf(spec_);
  placed_.assign(static_cast<size_t>(spec_.num_layers()) * kNumRoles, {});
  TensorMismatch mismatch;
  std::set<std::string_view> expected;
  for (const ExpectedTensor& wanted : ExpectedTensors(spec_, weights_, naming())) {
    const auto found = tensors_.find(wanted.name);
    if (found == tensors_.end()) {
      mismatch.missing.push_back(wanted.name);
      continue;
    }
    expected.insert(found->first);
    std::vector<const Tensor*>& places = placed_[PlaceOf(wanted.role, wanted.layer)];
    if (!IsWeight(found->second, weight(wanted.role))) {
      mismatch.misshapen.push_back(fmt::format("{} of {}", wanted.name, LayoutOf(found->second.type).name));
    } else if (SaySame(found->second.shape, wanted.shape, naming())) {
      if (IsOfExpert(wanted.role) && wanted.expert == kAllExperts) {
        PlaceExperts(found->second, places);
      } else if (IsOfLatentHeads(wanted.role) && spec_.latent.by_head) {
        // The rows of all heads become the rows of one matrix, one head after another.
        const Tensor& by_head = found->second;
        experts_.push_back(
            {by_head.type, {by_head.shape[0] * by_head.shape[1], by_head.shape[2]}, by_head.data, by_head.scales});
        places.push_back(&experts_.back());
      } else {
        places.push_back(&found->second);
      }
    } else {
      mismatch.misshapen.push_back(fmt::format("{} [{}] instead of [{}]", wanted.name,
                                               fmt::join(found->second.shape, ", "), fmt::join(wanted.shape, ", ")));
    }
  }
  for (const auto& [name, tensor] : tensors_) {
    if (!expected.contains(name) && !MayBePresent(spec_, name, naming()) && !IsUnusedBias(spec_, name, tensor)) {
      mismatch.unexpected.push_back(name.substr(0, 100));
    }
  }
  if (mismatch.empty()) return PlaceValues();
  Fail("{}: the tensors are not those of the {} that the configuration describes; {}{}", path_, spec_.architecture,
       mismatch.Text(), spec_.predicts ? " (these are the names of a model that has the prediction layer alone)" : "");
}

void ModelFiles::PlaceValues() {
  for (int64_t layer = 0; layer < spec_.num_layers(); ++layer) {
    if (spec_.layers[static_cast<size_t>(layer)].values_are_keys)
      placed_[PlaceOf(Role::kValue, layer)] = placed_[PlaceOf(Role::kKey, layer)];
  }
}

void ModelFiles::PlaceExperts(const Tensor& stacked, std::vector<const Tensor*>& places) {
  const auto count = static_cast<size_t>(spec_.mixture.experts);
  const size_t bytes = stacked.data.size() / count, scales = stacked.scales.size() / count;
  for (size_t expert = 0; expert < count; ++expert) {
    experts_.push_back({stacked.type,
                        {stacked.shape.begin() + 1, stacked.shape.end()},
                        stacked.data.subspan(expert * bytes, bytes),
                        stacked.scales.subspan(expert * scales, scales)});
    places.push_back(&experts_.back());
  }
}

const WeightSpec& ModelFiles::weight(Role role) const {
  const auto found = std::ranges::find(weights_, role, &WeightSpec::role);
  QUIRE_CHECK(found != weights_.end(), "a {} has no weight {}", spec_.architecture, static_cast<int>(role));
  return *found;
}

RowPlaces ModelFiles::PlacesOf(Role role, int64_t layer) const {
  return quire::PlacesOf(spec_, weights_, weight(role), layer, naming());
}

const Tensor& ModelFiles::Get(Role role, int64_t layer, int64_t expert) const {
  const std::vector<const Tensor*>& places = placed_[PlaceOf(role, layer)];
  const auto place = static_cast<size_t>(expert);
  QUIRE_CHECK(place < places.size(), "a {} has no weight {}", spec_.architecture, static_cast<int>(role));
  return *places[place];
}

void ModelFiles::ReleasePages() const {
  for (const MappedFile& file : files_) file.ReleasePages();
}

ModelDtype ModelFiles::GpuDtype() const { return half_ ? ModelDtype::kFloat16 : ModelDtype::kBFloat16; }

int64_t ModelFiles::TotalBytes() const { return total_bytes_; }

void ModelFiles::CloseFiles() {
  fingerprint_ = ComputeFingerprint();
  for (AdapterFiles& adapter : adapters_) adapter.CloseFiles();
  for (auto& [name, tensor] : tensors_) {
    tensor.data = tensor.scales = {};
    tensor.scaled = nullptr;
  }
  for (Tensor& tensor : experts_) tensor.data = tensor.scales = {};
  if (gguf_) {
    for (auto& [name, tensor] : gguf_->tensors) tensor.data = {};
  }
  files_.clear();
}

}  // namespace quire
