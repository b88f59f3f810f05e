#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/model/gguf.h"
#include "comm/model/mapped_file.h"
#include "comm/model/model_config.h"
#include "comm/model/tensor.h"

namespace quire {

/// A model on disk: an HF directory (config.json and safetensors, single or sharded) or one GGUF file.
/// Tensors carry HF's names ("model.layers.0.self_attn.q_proj.weight") whatever the format. Immutable once open;
/// nothing but headers is read until a tensor's bytes are touched.
class ModelFiles {
 public:
  /// Throws Error when a file is missing, broken or of an unsupported kind, or a tensor has the wrong shape.
  static ModelFiles Open(const std::string& path);

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }
  /// Metadata of a GGUF model, for the tokenizer; null for an HF directory.
  const GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  /// Throws Error naming the tensor when the model lacks it.
  const Tensor& Get(const std::string& name) const;

  /// Hash of configuration, tensor names, types, shapes and the first bytes of every tensor, as 32 hex digits:
  /// two processes with the same fingerprint opened the same model. What it does not see: changes further inside of a
  /// tensor (comm/model/checksums.h does).
  std::string Fingerprint() const;

  /// What GPUs compute in unless they are told: float16 where the weights are stored so, else bfloat16.
  const char* GpuDtype() const;

  /// Bytes of all tensors as stored.
  int64_t TotalBytes() const;

  /// Unmaps the files, for who needs no more than the metadata: nothing that happens to them matters any more. The
  /// tensors keep their types and shapes and have no bytes; the rest answers as before.
  void CloseFiles();

  /// Lets go of the files' pages that this process has touched; whoever has packed the tensors needs them no more.
  void ReleasePages() const;

 private:
  ModelFiles() = default;
  void OpenHf();
  void OpenGguf();
  void CheckShapes() const;
  std::string ComputeFingerprint() const;

  std::string path_;
  std::vector<MappedFile> files_;
  std::optional<GgufFile> gguf_;
  ModelConfig config_;
  TensorMap tensors_;
  int64_t total_bytes_ = 0;
  std::string fingerprint_;  // of files that are closed
};

}  // namespace quire
