#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/tensor.h"
#include "comm/model/weight_spec.h"

namespace quire {

class ModelFiles;

/// The weights that adapters may change. The ranks stack those of one product in this order.
inline constexpr Role kAdapterRoles[] = {Role::kQuery,        Role::kKey,  Role::kValue, Role::kAttentionGate,
                                         Role::kAttentionOut, Role::kGate, Role::kUp,    Role::kDown};

/// The change of one matrix of the base model by a LoRA adapter: W + scale * b * a. The matrix may hold several weights
/// (Fusion), whose rows are rows of b.
struct AdapterMatrix {
  std::string module;  // its name in the adapter's file
  int64_t layer = 0;
  std::vector<Role> roles;  // roles of the matrices, in the order of the base model's list
  float scale = 1;
  Tensor a, b;  // [rank, columns of the matrix], [rows of the matrix, rank]

  int64_t rank() const { return a.rows(); }
};

/// A LoRA adapter on disk: a PEFT directory with adapter_config.json and adapter_model.safetensors.
class AdapterFiles {
 public:
  /// Opens an adapter of the model `base`. Throws Error for files that are missing, broken or not supported, and for
  /// tensors that do not fit the model; the error names the tensor. All tensors of the file are used. With `most_bytes`
  /// the tensors' file is copied into memory, so that later changes of the file do no harm; a larger file is refused.
  static AdapterFiles Open(const std::string& path, const ModelFiles& base, std::optional<size_t> most_bytes = {});

  const std::string& path() const { return path_; }
  const std::vector<AdapterMatrix>& matrices() const { return matrices_; }
  int64_t rank() const;  // the largest of all matrices
  /// Returns the bytes of all numbers in 32 bits, as the ranks of a group hold them together. Each rank holds all of
  /// `a` where the ranks split a matrix's rows.
  int64_t bytes() const;
  /// Returns the size of the tensors' file.
  size_t file_bytes() const { return file_bytes_; }
  /// Returns a hash of both files, as 32 hex digits.
  const std::string& fingerprint() const { return fingerprint_; }

  /// Unmaps the file. The matrices keep types and shapes but lose their bytes.
  void CloseFiles();

 private:
  AdapterFiles() = default;
  class Reader;

  std::string path_, fingerprint_;
  size_t file_bytes_ = 0;
  std::vector<MappedFile> files_;  // one; none once closed
  std::vector<AdapterMatrix> matrices_;
};

}  // namespace quire
