// Sorts the tensors of a PEFT directory by module and kind, and refuses tensors that do not fit the base model.
#include "comm/model/adapter_peft.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/adapter_readers.h"
#include "comm/model/model_files.h"

namespace quire {

namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.", kOfA = ".lora_A.weight", kOfB = ".lora_B.weight",
                           kEmbeddingA = ".lora_embedding_A", kEmbeddingB = ".lora_embedding_B",
                           kOfTokens = ".token_adapter.trainable_tokens_delta", kPeftWeight = ".weight",
                           kBaseLayer = ".base_layer", kExperts = ".experts";

/// Removes `end` from the end of the name. Returns false if the name does not end with `end`.
bool TakeEnd(std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.resize(name.size() - end.size());
  return true;
}

}  // namespace

AdapterContents ReadPeftTensors(const ModelFiles& base, const ModelSpec& layout, const AdapterConfig& config,
                                const std::string& file, const TensorMap& tensors) {
  return PeftReader(base, layout, config, file).Read(tensors);
}

PeftReader::PeftReader(const ModelFiles& base, const ModelSpec& layout, const AdapterConfig& config,
                       const std::string& file)
    : base_(base),
      layout_(layout),
      config_(config),
      file_(file),
      known_(BaseMatricesOf(layout, Naming::kHf)),
      embedding_(TableName(layout, Role::kEmbedding, Naming::kHf)),
      head_(layout.has_head ? TableName(layout, Role::kHead, Naming::kHf) : "") {}

void PeftReader::Refuse(const std::string& name, const std::string& reason) const { RefuseTensor(file_, name, reason); }

void PeftReader::CheckShape(const std::string& name, const Tensor& tensor, const std::vector<int64_t>& wanted) const {
  CheckTensorShape(file_, name, tensor, wanted);
}

std::string PeftReader::ListName(const std::string& module) const {
  return base_.ListNameOf(module + std::string(kPeftWeight));
}

void PeftReader::Take(const std::string& name, const Tensor& tensor) {
  constexpr const char* kNone =
      "is none of a LoRA matrix (base_model.model.MODULE.lora_A.weight or lora_B.weight), nor of an embedding or head";
  if (!name.starts_with(kPeftPrefix)) Refuse(name, kNone);
  std::string module = name.substr(kPeftPrefix.size());
  const auto is_pair = [&](std::string_view end) { return module.ends_with(end); };
  constexpr std::string_view kEnds[] = {kOfA, kOfB, kEmbeddingA, kEmbeddingB, kOfTokens, kPeftWeight};
  const auto* end = std::ranges::find_if(kEnds, is_pair);
  if (end == std::end(kEnds)) Refuse(name, kNone);
  TakeEnd(module, *end);
  if (module.find(".lora_") != std::string::npos) Refuse(name, kNone);
  if (*end != kPeftWeight) CheckNumbers(name, tensor);
  if (*end == kOfA || *end == kOfB) return TakePair(name, module, *end == kOfA, tensor);
  TakeTable(name, module, *end, tensor);
}

void PeftReader::CheckNumbers(const std::string& name, const Tensor& tensor) const {
  if (IsFloat(tensor.type) && tensor.shape.size() == 2) return;
  Refuse(name, fmt::format("{} numbers in {} dimensions; expected two dimensions of F32, F16 or BF16",
                           LayoutOf(tensor.type).name, tensor.shape.size()));
}

void PeftReader::TakePair(const std::string& name, const std::string& module, bool is_a, const Tensor& tensor) {
  std::string outer = module;
  while (TakeEnd(outer, kBaseLayer)) {
  }
  const bool stacked = outer.ends_with(kExperts);
  std::string of_base = stacked ? module : ListName(module);
  if (!stacked && of_base != head_) {
    for (const std::string& other : OtherModuleNames(module)) {
      if (!known_.contains(of_base) && known_.contains(ListName(other))) of_base = ListName(other);
    }
    CheckMatrix(name, of_base);
  }
  const std::string parameter = module + std::string(kPeftWeight);
  const bool tied = of_base == head_ && config_.ties_head();
  if (!stacked && !tied && !config_.Targets(module) && !config_.TargetsParameter(parameter))
    Refuse(name, "adapter_config.json targets no such module");
  if (!stacked) parameters_.insert(parameter);
  renamed_ = renamed_ || (!stacked && of_base != parameter);
  Pair& pair = stacked ? stacks_[module] : pairs_[of_base];
  Tensor& part = is_a ? pair.a : pair.b;
  if ((!pair.module.empty() && pair.module != module) || !part.shape.empty())
    Refuse(name, "the file has this matrix under two names");
  pair.module = module;
  part = tensor;
}

void PeftReader::CheckMatrix(const std::string& name, const std::string& of_base) {
  const auto matrix = known_.find(of_base);
  if (matrix == known_.end()) Refuse(name, "the base model has no such matrix");
  if (!matrix->second.takes_adapters)
    Refuse(name,
           "adapters may not change this matrix; merge the adapter into its base model, or train it without this "
           "module");
  const LayerSpec& layer = layout_.layers[static_cast<size_t>(matrix->second.layer)];
  for (const AdaptedWeight& weight : matrix->second.weights) {
    roles_.insert(weight.role);
    if (layer.values_are_keys && weight.role == Role::kKey)
      Refuse(name, "this layer's keys are its values, too, which no adapter may change");
  }
}

void PeftReader::TakeTable(const std::string& name, std::string module, std::string_view end, const Tensor& tensor) {
  const bool is_base = end == kPeftWeight && TakeEnd(module, kBaseLayer);
  const std::string of_base = ListName(module);
  const bool is_head = !head_.empty() && of_base == head_;
  if (!is_head && of_base != embedding_)
    Refuse(name, "adapters replace weights of the embedding and of the output head only (modules_to_save)");
  AdapterTable& table = is_head ? contents_.head : contents_.embedding;
  if (end == kPeftWeight) {
    TakeReplaced(name, is_head, tensor);
    if (!is_head && (is_base || !config_.Replaces(module))) base_replaced_ = true;
  } else if (end == kOfTokens) {
    for (const auto& [key, tokens] : config_.tokens()) {
      if (key.empty() ? !is_head : AdapterConfig::Ends(key, module)) table.tokens = tokens;
    }
    if (table.tokens.empty()) Refuse(name, "adapter_config.json names no such tokens (trainable_token_indices)");
    CheckShape(name, tensor, {std::ssize(table.tokens), layout_.hidden_size});
    table.rows = tensor;
  } else {
    if (is_head) Refuse(name, "the output head takes lora_A and lora_B");
    if (!config_.Targets(module)) Refuse(name, "adapter_config.json targets no such module");
    embedding_module_ = module;
    (end == kEmbeddingA ? table.a : table.b) = tensor;
  }
}

void PeftReader::TakeReplaced(const std::string& name, bool is_head, const Tensor& tensor) {
  CheckNumbers(name, tensor);
  CheckShape(name, tensor, {layout_.vocab_size, layout_.hidden_size});
  bool& replaced = is_head ? head_replaced_ : embedding_replaced_;
  if (replaced) Refuse(name, "the file has this matrix under two names");
  replaced = true;
  const Tensor& stored = base_.Get(is_head && base_.Has(Role::kHead) ? Role::kHead : Role::kEmbedding);
  // PEFT also stores the base model's own weights if LoRA changes an embedding. Equal weights change nothing.
  if (stored.type == tensor.type && stored.scaled == nullptr && std::ranges::equal(stored.data, tensor.data)) return;
  (is_head ? contents_.head : contents_.embedding).whole = tensor;
}

}  // namespace quire
