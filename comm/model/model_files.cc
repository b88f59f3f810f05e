#include "comm/model/model_files.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "comm/model/formats/mxfp4.h"
#include "comm/model/formats/safetensors.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxJsonBytes = 64 << 20;
constexpr size_t kSampleBytes = 64;  // of every tensor, for the fingerprint

/// How a file's tensors differ from those that the model must have.
struct Mismatch {
  std::vector<std::string> missing, unexpected, misshapen;

  bool empty() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
  std::string Text() const {
    std::vector<std::string> parts;
    for (const auto& [what, names] :
         {std::pair{"missing", &missing}, {"unexpected", &unexpected}, {"of another shape", &misshapen}}) {
      if (!names->empty()) parts.push_back(fmt::format("{}: {}", what, FirstOf(*names)));
    }
    return fmt::format("{}", fmt::join(parts, "; "));
  }

 private:
  static std::string FirstOf(const std::vector<std::string>& names) {
    constexpr size_t kMost = 6;
    if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMost, ", "), names.size() - kMost);
  }
};

/// Some files have a matrix of one row as a vector, or a vector as a matrix of one row.
bool SaySame(const std::vector<int64_t>& found, const std::vector<int64_t>& wanted) {
  const auto is_row = [](const std::vector<int64_t>& matrix, const std::vector<int64_t>& vector) {
    return matrix.size() == 2 && matrix[0] == 1 && vector == std::vector{matrix[1]};
  };
  return found == wanted || is_row(wanted, found) || is_row(found, wanted);
}

/// Names of the safetensors files of a directory: the index's, else model.safetensors.
std::vector<std::string> SafetensorsNames(const ModelTree& tree, const std::string& directory) {
  constexpr const char* kIndex = "model.safetensors.index.json";
  if (!tree.Has(kIndex)) {
    if (tree.Has("model.safetensors")) return {"model.safetensors"};
    Fail("{}: holds neither model.safetensors nor {}", directory, kIndex);
  }
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

}  // namespace

ModelFiles ModelFiles::Open(const std::string& path) {
  ModelFiles model;
  model.path_ = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    model.OpenHf();
  } else if (fs::exists(path, ignored)) {
    model.OpenGguf();
  } else {
    Fail("{}: no such model; give an HF directory or a GGUF file{}", path,
         path.starts_with("/models/") ? " (the example topologies' /models/... stands for a path of your own)" : "");
  }
  model.PlaceTensors();
  for (const auto& [name, tensor] : model.tensors_)
    model.total_bytes_ += static_cast<int64_t>(tensor.data.size() + tensor.scales.size());
  return model;
}

void ModelFiles::OpenHf() {
  const ModelTree tree(path_);
  constexpr const char* kGeneration = "generation_config.json";
  spec_ =
      SpecFromHf(tree.ReadText("config.json", kMaxJsonBytes),
                 tree.Has(kGeneration) ? tree.ReadText(kGeneration, kMaxJsonBytes) : "", tree.PathOf("config.json"));
  for (const std::string& name : SafetensorsNames(tree, path_)) {
    files_.emplace_back(tree.Open(name));
    for (auto& [tensor_name, tensor] : ReadSafetensors(files_.back().bytes(), files_.back().path())) {
      if (!tensors_.emplace(tensor_name, std::move(tensor)).second) {
        Fail("{}: tensor {} is in two files", path_, tensor_name);
      }
    }
  }
  JoinMxFp4(tensors_, path_);
  ReadLayout(tensors_, spec_);
  CompleteNames();
}

void ModelFiles::CompleteNames() {
  const std::string base = HfBaseOf(spec_);
  if (base.empty() || std::ranges::any_of(tensors_, [&](const auto& t) { return t.first.starts_with(base); })) return;
  TensorMap named;
  for (auto& [name, tensor] : tensors_) named.emplace(base + name, std::move(tensor));
  tensors_ = std::move(named);
}

void ModelFiles::OpenGguf() {
  files_.emplace_back(path_);
  gguf_ = ReadGguf(files_.back().bytes(), path_);
  spec_ = SpecFromGguf(*gguf_);
  tensors_ = gguf_->tensors;
}

void ModelFiles::PlaceTensors() {
  const Naming naming = gguf_ ? Naming::kGguf : Naming::kHf;
  weights_ = WeightsOf(spec_);
  placed_.assign(static_cast<size_t>(spec_.num_layers()) * kNumRoles, {});
  Mismatch mismatch;
  std::set<std::string_view> expected;
  for (const ExpectedTensor& wanted : ExpectedTensors(spec_, weights_, naming)) {
    const auto found = tensors_.find(wanted.name);
    if (found == tensors_.end()) {
      mismatch.missing.push_back(wanted.name);
      continue;
    }
    expected.insert(found->first);
    std::vector<const Tensor*>& places = placed_[PlaceOf(wanted.role, wanted.layer)];
    if (SaySame(found->second.shape, wanted.shape)) {
      if (IsOfExpert(wanted.role) && wanted.expert == kAllExperts) {
        PlaceExperts(found->second, places);
      } else {
        places.push_back(&found->second);
      }
      continue;
    }
    mismatch.misshapen.push_back(fmt::format("{} [{}] instead of [{}]", wanted.name,
                                             fmt::join(found->second.shape, ", "), fmt::join(wanted.shape, ", ")));
  }
  for (const auto& [name, tensor] : tensors_) {
    if (!expected.contains(name) && !MayBePresent(spec_, name, naming)) {
      mismatch.unexpected.push_back(name.substr(0, 100));
    }
  }
  if (mismatch.empty()) return;
  Fail("{}: the tensors are not those of the {} that the configuration describes; {}", path_, spec_.architecture,
       mismatch.Text());
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

const Tensor& ModelFiles::Get(Role role, int64_t layer, int64_t expert) const {
  const std::vector<const Tensor*>& places = placed_[PlaceOf(role, layer)];
  const auto place = static_cast<size_t>(expert);
  QUIRE_CHECK(place < places.size(), "a {} has no weight {}", spec_.architecture, static_cast<int>(role));
  return *places[place];
}

std::string ModelFiles::Fingerprint() const { return fingerprint_.empty() ? ComputeFingerprint() : fingerprint_; }

std::string ModelFiles::ComputeFingerprint() const {
  std::string text = TextOf(spec_) + '\n';
  for (const auto& [name, tensor] : tensors_) {
    text += fmt::format("{} {} {}\n", name, LayoutOf(tensor.type).name, fmt::join(tensor.shape, ","));
    const size_t sample = std::min(kSampleBytes, tensor.data.size());
    text.append(reinterpret_cast<const char*>(tensor.data.data()), sample);
  }
  unsigned char digest[16];
  crypto_generichash(digest, sizeof(digest), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr,
                     0);
  char hex[2 * sizeof(digest) + 1];
  sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
  return hex;
}

void ModelFiles::ReleasePages() const {
  for (const MappedFile& file : files_) file.ReleasePages();
}

ModelDtype ModelFiles::GpuDtype() const {
  return Get(Role::kQuery).type == NumberType::kF16 ? ModelDtype::kFloat16 : ModelDtype::kBFloat16;
}

int64_t ModelFiles::TotalBytes() const { return total_bytes_; }

void ModelFiles::CloseFiles() {
  fingerprint_ = ComputeFingerprint();
  for (auto& [name, tensor] : tensors_) tensor.data = tensor.scales = {};
  for (Tensor& tensor : experts_) tensor.data = tensor.scales = {};
  if (gguf_) {
    for (auto& [name, tensor] : gguf_->tensors) tensor.data = {};
  }
  files_.clear();
}

}  // namespace quire
