#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/formats/gguf.h"
#include "comm/model/formats/kv_scales.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/tensor.h"
#include "comm/model/repeated_numbers.h"
#include "comm/model/weight_spec.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"

namespace quire {

/// A model on disk: an HF directory (config.json and safetensors, single or sharded) or one GGUF file.
/// Tensors are found by what they are for, whatever the format calls them. Immutable once open; nothing but headers is
/// read until a tensor's bytes are touched.
class ModelFiles {
 public:
  /// Throws Error when a file is missing, broken or of an unsupported kind, or the tensors are not those that the
  /// configuration asks for: all that are missing, unexpected or of another shape are named at once.
  /// kDummy: an HF directory of which config.json is enough; its weights are made up.
  static ModelFiles Open(const std::string& path, LoadFormat load_format = LoadFormat::kAuto);

  const ModelSpec& spec() const { return spec_; }
  const std::string& path() const { return path_; }
  const std::vector<KvScales>& kv_scales() const { return kv_scales_; }  // by layer
  LoadFormat load_format() const { return made_up_.empty() ? LoadFormat::kAuto : LoadFormat::kDummy; }
  /// Metadata of a GGUF model, for the tokenizer; null for an HF directory.
  const GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  /// The tensor with this role; `layer` counts for those of a layer, `expert` for those of experts, stacked or not. The
  /// model has it (WeightsOf(spec()), HasRole).
  const Tensor& Get(Role role, int64_t layer = 0, int64_t expert = 0) const;
  const WeightSpec& weight(Role role) const;
  /// Where the layer's weight of this role is in its tensor.
  RowPlaces PlacesOf(Role role, int64_t layer) const;
  bool Has(Role role, int64_t layer = 0) const { return !placed_[PlaceOf(role, layer)].empty(); }

  /// Hash of the whole spec, tensor names, types, shapes and the first bytes of every tensor, as 32 hex digits: two
  /// processes with the same fingerprint opened the same model. What it does not see: changes further inside of a
  /// tensor (comm/model/checksums.h does).
  std::string Fingerprint() const;

  /// What GPUs compute in unless they are told: as weights or their scales are stored, float16 or else bfloat16.
  ModelDtype GpuDtype() const;

  int64_t TotalBytes() const;                                       // of all tensors as stored
  const std::vector<std::string>& notes() const { return notes_; }  // for the log: what is read otherwise

  /// Unmaps the files, for who needs no more than the metadata: what happens to them does not matter any more. Tensors
  /// keep their types and shapes without bytes; the rest answers as before.
  void CloseFiles();

  void ReleasePages() const;  // that this process has touched: for who has packed the tensors

 private:
  ModelFiles() = default;
  Naming naming() const { return gguf_ ? Naming::kGguf : Naming::kHf; }
  void OpenHf();
  void MakeUp();
  void OpenGguf();
  /// Gives tensors the names that the family's list has, and of a model that sees or hears as well leaves its text
  /// model.
  void BringNames();
  /// Takes the head from the file where it has one, and does without where the model only embeds.
  void SettleHead(bool only_embeds);
  void PlaceTensors();
  /// Keys' weights are values', too, where values are keys.
  void PlaceValues();
  /// Cuts a tensor of all experts into one for each.
  void PlaceExperts(const Tensor& stacked, std::vector<const Tensor*>& places);
  static size_t PlaceOf(Role role, int64_t layer) {
    return static_cast<size_t>(layer) * kNumRoles + static_cast<size_t>(role);
  }
  std::string ComputeFingerprint() const;

  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<RepeatedNumbers> made_up_;  // instead of files: one
  std::vector<std::byte> ones_;           // likewise, of norms
  std::optional<GgufFile> gguf_;
  ModelSpec spec_;
  TensorMap tensors_;  // by the names of the family's list
  std::vector<std::string> notes_;
  std::vector<KvScales> kv_scales_;
  int64_t total_bytes_ = 0;
  bool half_ = false;        // weights, or their scales, are float16
  std::string fingerprint_;  // of files that are closed
  std::vector<WeightSpec> weights_;
  std::deque<Tensor> experts_;  // parts of tensors_ that are of one expert each, or others' with other shapes
  /// Into those two: [layers, roles], of each one tensor or, of experts', one for each, or none. Of no layer: layer 0.
  std::vector<std::vector<const Tensor*>> placed_;
};

}  // namespace quire
