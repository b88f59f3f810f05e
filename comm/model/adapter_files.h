#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/tensor.h"
#include "comm/model/model_spec.h"
#include "comm/model/weight_spec.h"

namespace quire {

class ModelFiles;

/// A weight of the base model that an AdapterMatrix changes, and the rows of AdapterMatrix::b that belong to this
/// weight.
struct AdaptedWeight {
  Role role;
  RowPlaces rows;
};

/// The change that a LoRA adapter makes to one matrix W of the base model: W + scale * b * a. The matrix may contain
/// several weights (Fusion); each of them has some rows of b.
struct AdapterMatrix {
  std::string module = {};  // the matrix's name in the adapter's file
  int64_t layer = 0;
  int64_t expert = kAllExperts;  // expert to which the matrix belongs; kAllExperts: it belongs to no single expert
  std::vector<AdaptedWeight> weights = {};
  float scale = 1;
  Tensor a = {};  // [rank, columns of the matrix]
  /// [rows of the matrix, columns]. Column i of the LoRA matrix b is column b_first + i * b_step of this tensor.
  Tensor b = {};
  int64_t b_first = 0, b_step = 1;

  int64_t rank() const { return a.rows(); }
};

/// The change that a LoRA adapter makes to the embedding or to the output head. Rows that the adapter has are replaced
/// first; then the LoRA product is added.
struct AdapterTable {
  Tensor whole;                 // [vocabulary, hidden], replaces the base model's tensor; no shape: that tensor remains
  std::vector<TokenId> tokens;  // tokens whose rows the adapter replaces
  Tensor rows;                  // [tokens, hidden]
  /// The embedding's LoRA matrices, which add scale * b * (the token's column of a) to the token's row. The head's LoRA
  /// matrices are an AdapterMatrix instead.
  Tensor a;  // [rank, vocabulary], or [vocabulary, rank] with a_by_token; no shape: no LoRA matrices
  Tensor b;  // [hidden, rank]
  bool a_by_token = false;
  float scale = 1;
};

/// The changes that an adapter's tensors describe.
struct AdapterContents {
  std::vector<AdapterMatrix> matrices;
  AdapterTable embedding, head;
};

/// A LoRA adapter on disk: a PEFT directory with adapter_config.json and adapter_model.safetensors, or a GGUF file.
class AdapterFiles {
 public:
  /// Opens an adapter of the model `base`. Throws Error for missing, broken or unsupported files, and for tensors that
  /// do not fit the model or have no use; the error names the tensor. With `most_bytes` the tensors' file is copied
  /// into memory, so that later changes of the file do no harm; a file larger than `most_bytes` is refused.
  static AdapterFiles Open(const std::string& path, const ModelFiles& base, std::optional<size_t> most_bytes = {});

  const std::string& path() const { return path_; }
  const std::vector<AdapterMatrix>& matrices() const { return contents_.matrices; }
  const AdapterTable& embedding() const { return contents_.embedding; }
  const AdapterTable& head() const { return contents_.head; }
  /// Returns the base model's description with the orders of rows and columns of this adapter's file.
  const ModelSpec& layout() const { return layout_; }
  int64_t rank() const;  // largest rank of all matrices
  /// Returns the bytes that the adapter's numbers take as fp32, each number counted once. The ranks of a group together
  /// may need more: if they split a matrix's rows, each rank has all of `a`.
  int64_t bytes() const;
  /// Returns the size of the tensors' file, in bytes.
  size_t file_bytes() const { return file_bytes_; }
  /// Returns a hash of the adapter's tensors and configuration, as 32 hex digits.
  const std::string& fingerprint() const { return fingerprint_; }

  /// Unmaps the file. The matrices still have types and shapes, but no bytes.
  void CloseFiles();

 private:
  AdapterFiles() = default;
  void OpenPeft(const ModelFiles& base, std::optional<size_t> most_bytes);
  void OpenGguf(const ModelFiles& base, std::optional<size_t> most_bytes);

  std::string path_, fingerprint_;
  size_t file_bytes_ = 0;
  std::vector<MappedFile> files_;  // the tensors' file; empty after CloseFiles
  ModelSpec layout_;
  AdapterContents contents_;
};

}  // namespace quire
