#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/adapter_files.h"
#include "comm/model/formats/gguf.h"
#include "comm/model/formats/kv_scales.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/tensor.h"
#include "comm/model/repeated_numbers.h"
#include "comm/model/weight_spec.h"
#include "comm/topology/compute_settings.h"
#include "comm/topology/load_format.h"

namespace quire {

class ModelTree;

/// A model on disk: an HF directory (config.json and safetensors files) or a GGUF model. Tensors are looked up by role,
/// independent of the format's names. Once open, the object changes only by CloseFiles. Opening reads only headers; a
/// tensor's bytes are read when they are touched.
class ModelFiles {
 public:
  /// Opens a model. Throws Error when a file is missing, broken or unsupported, or when the tensors do not match the
  /// configuration; the error lists all missing, unexpected and misshapen tensors. kDummy needs only config.json of an
  /// HF directory and uses made-up weights. `adapters` are paths of LoRA adapters (AdapterFiles).
  static ModelFiles Open(const std::string& path, LoadFormat load_format = LoadFormat::kAuto,
                         const std::vector<std::string>& adapters = {});

  /// Opens the first prediction layer of the model's files as a model of its own
  /// (comm/model/architectures/prediction_layer.h). Throws Error as Open does, and when the files have no such layer.
  static ModelFiles OpenPrediction(const std::string& path, LoadFormat load_format = LoadFormat::kAuto);

  const ModelSpec& spec() const { return spec_; }
  const std::string& path() const { return path_; }
  const std::vector<KvScales>& kv_scales() const { return kv_scales_; }  // indexed by layer
  LoadFormat load_format() const { return made_up_.empty() ? LoadFormat::kAuto : LoadFormat::kDummy; }
  /// Returns the metadata of a GGUF model, for the tokenizer; null for an HF directory.
  const GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  /// Returns the tensor with this role. `layer` is used for roles of a layer, `expert` for roles of experts, stacked or
  /// not. The model must have the weight (WeightsOf(spec()), HasRole).
  const Tensor& Get(Role role, int64_t layer = 0, int64_t expert = 0) const;
  const WeightSpec& weight(Role role) const;
  /// Returns which rows of its tensor the layer's weight of this role occupies.
  RowPlaces PlacesOf(Role role, int64_t layer) const;
  bool Has(Role role, int64_t layer = 0) const { return !placed_[PlaceOf(role, layer)].empty(); }
  /// Returns the adapters in the order of Open. AddedSequence::adapter counts them from 1.
  const std::vector<AdapterFiles>& adapters() const { return adapters_; }
  /// Returns the name that the family's list of weights has for the tensor `name` of an HF file. The names in an HF
  /// file depend on the HF class that wrote the file.
  std::string ListNameOf(const std::string& name) const;

  /// Returns a hash, as 32 hex digits, of the whole spec, of the scales of the KV cache, of the tensors' names, types
  /// and shapes, of the first bytes of every tensor, and of all bytes of adapters. The fingerprint tells whether two
  /// processes opened the same model. The fingerprint does not cover later bytes of tensors; comm/model/checksums.h
  /// does.
  std::string Fingerprint() const;

  /// Returns the default number type on GPUs: float16 if the first attention layer's query weights or their scales are
  /// stored as float16, else bfloat16.
  ModelDtype GpuDtype() const;

  int64_t TotalBytes() const;                                       // stored bytes of all tensors
  const std::vector<std::string>& notes() const { return notes_; }  // deviations from the files, for the log

  /// Unmaps the files when only metadata is needed. Later changes of the files then have no effect. Tensors still have
  /// types and shapes, but no bytes; the other functions work as before.
  void CloseFiles();

  void ReleasePages() const;  // drops the pages that this process has touched; call it after packing tensors

 private:
  ModelFiles() = default;
  /// Opens the whole model, or a prediction layer.
  void OpenPart(bool prediction, LoadFormat load_format);
  /// With `prediction`, keeps only the tensors of the first prediction layer, with the model's embedding and head.
  /// Otherwise adds a note if the files have prediction layers.
  void TakePart(bool prediction);
  Naming naming() const { return gguf_ ? Naming::kGguf : Naming::kHf; }
  void OpenHf(bool prediction);
  /// Reads the layers that are applied to every token's output row (PooledHead), which bge-m3 has in separate files.
  void OpenTokenLayers();
  void MakeUp(const ModelTree& tree, bool prediction);
  void OpenGguf(bool prediction);
  /// Renames tensors to the names of the family's list of weights. Keeps only the text model of a multimodal model.
  void BringNames();
  /// Decides whether the output head is a tensor of its own or the embedding. With `only_embeds`, a model without a
  /// head is taken as a model that only makes embeddings.
  void SettleHead(bool only_embeds);
  void PlaceTensors();
  /// In layers that use keys as values, makes the keys' weights also the values' weights.
  void PlaceValues();
  /// Splits a tensor of all experts into one tensor for each expert.
  void PlaceExperts(const Tensor& stacked, std::vector<const Tensor*>& places);
  static size_t PlaceOf(Role role, int64_t layer) {
    return static_cast<size_t>(layer) * kNumRoles + static_cast<size_t>(role);
  }
  std::string ComputeFingerprint() const;

  std::string path_;
  std::vector<MappedFile> files_;
  std::vector<RepeatedNumbers> made_up_;  // one element, used in place of files
  std::vector<std::byte> ones_;           // norm weights, used in place of files
  std::optional<GgufFile> gguf_;
  ModelSpec spec_;
  TensorMap tensors_;  // by the names in the family's list of weights
  std::vector<std::string> notes_;
  std::vector<KvScales> kv_scales_;
  std::vector<AdapterFiles> adapters_;
  int64_t total_bytes_ = 0;
  bool half_ = false;        // weights or their scales are float16
  std::string fingerprint_;  // set when the files are closed
  std::vector<WeightSpec> weights_;
  std::deque<Tensor> experts_;  // views of tensors_: the part of one expert, or another shape
  /// [layers, roles] pointers into tensors_ and experts_. An entry has one tensor, a tensor for each expert, or none.
  /// Roles outside layers use layer 0.
  std::vector<std::vector<const Tensor*>> placed_;
};

}  // namespace quire
