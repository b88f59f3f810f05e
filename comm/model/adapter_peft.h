#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/adapter_bases.h"
#include "comm/model/adapter_config.h"
#include "comm/model/adapter_files.h"

namespace quire {

/// Reads the tensors of one PEFT adapter.
class PeftReader {
 public:
  /// Takes the arguments of ReadPeftTensors. The references must outlive this object.
  PeftReader(const ModelFiles& base, const ModelSpec& layout, const AdapterConfig& config, const std::string& file);

  AdapterContents Read(const TensorMap& tensors);

 private:
  /// The two LoRA tensors, a and b, of one matrix in the file.
  struct Pair {
    std::string module;
    Tensor a, b;
  };

  [[noreturn]] void Refuse(const std::string& name, const std::string& reason) const;
  void CheckNumbers(const std::string& name, const Tensor& tensor) const;
  void CheckShape(const std::string& name, const Tensor& tensor, const std::vector<int64_t>& wanted) const;
  /// Returns the name of the module's weight in the family's list of weights.
  std::string ListName(const std::string& module) const;
  float ScaleOf(const std::string& name, const std::string& tensor) const;

  // The functions below sort the file's tensors by module and kind.
  void Take(const std::string& name, const Tensor& tensor);
  void TakePair(const std::string& name, const std::string& module, bool is_a, const Tensor& tensor);
  void CheckMatrix(const std::string& name, const std::string& of_base);
  void TakeTable(const std::string& name, std::string module, std::string_view end, const Tensor& tensor);
  void TakeReplaced(const std::string& name, bool is_head, const Tensor& tensor);

  // The functions below make the adapter's contents from the sorted tensors.
  void AddMatrix(const std::string& of_base, const Pair& pair);
  void AddExperts(const std::string& module, const Pair& pair);
  void Add(const BaseMatrix& base, const std::string& config_name, const Pair& pair);
  void FinishEmbedding();
  void ShareEmbedding();
  void CheckTokens(const std::string& module, const AdapterTable& table) const;
  void CheckTables() const;
  void CheckComplete() const;
  void CheckParameters() const;

  const ModelFiles& base_;
  const ModelSpec& layout_;
  const AdapterConfig& config_;
  const std::string& file_;
  const BaseMatrices known_;
  const std::string embedding_, head_;  // names in the family's list of weights; head_: empty without a head
  std::map<std::string, Pair> pairs_;   // pairs of matrices, by the base weight's name in the family's list of weights
  std::map<std::string, Pair> stacks_;  // pairs of all experts of a layer, by the module's name in the file
  std::set<Role> roles_;                // roles of the matrices in the file
  std::set<std::string> parameters_;    // names of the parameters in the file
  AdapterContents contents_;
  std::string embedding_module_;                             // the embedding's module name in the file
  bool embedding_replaced_ = false, head_replaced_ = false;  // the file has its own embedding, or its own head
  bool base_replaced_ = false;                               // the file's embedding also replaces a tied head
  bool renamed_ = false;                                     // names differ from those in the family's list of weights
};

}  // namespace quire
