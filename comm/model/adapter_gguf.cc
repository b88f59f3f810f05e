// Reads LoRA adapters in llama.cpp's format.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "comm/base/error.h"
#include "comm/model/adapter_bases.h"
#include "comm/model/adapter_readers.h"
#include "comm/model/architecture.h"
#include "comm/model/model_files.h"

namespace quire {

namespace {

constexpr std::string_view kLoraA = ".lora_a", kLoraB = ".lora_b";

/// Returns one expert's matrix from a stack of experts' matrices.
Tensor ExpertOf(const Tensor& stack, int64_t expert) {
  const size_t bytes = stack.data.size() / static_cast<size_t>(stack.shape[0]);
  return {stack.type, {stack.shape[1], stack.shape[2]}, stack.data.subspan(static_cast<size_t>(expert) * bytes, bytes)};
}

class GgufAdapterReader {
 public:
  GgufAdapterReader(const ModelSpec& layout, const GgufFile& file)
      : layout_(layout), file_(file), known_(BaseMatricesOf(layout, Naming::kGguf)) {}

  AdapterContents Read() {
    CheckKind();
    std::map<std::string, Pair> pairs;
    for (const auto& [name, tensor] : file_.tensors) {
      const bool is_a = name.ends_with(kLoraA);
      if (!is_a && !name.ends_with(kLoraB))
        Refuse(name, "is none of a LoRA matrix (NAME.weight.lora_a or NAME.weight.lora_b)");
      if (!IsFloat(tensor.type))
        Refuse(name, fmt::format("{} numbers; expected F32, F16 or BF16", LayoutOf(tensor.type).name));
      Pair& pair = pairs[name.substr(0, name.size() - kLoraA.size())];
      (is_a ? pair.a : pair.b) = tensor;
    }
    if (pairs.empty()) Fail("{}: holds no tensors", file_.path);
    for (const auto& [name, pair] : pairs) Add(name, pair);
    return std::move(contents_);
  }

 private:
  struct Pair {
    Tensor a, b;
  };

  [[noreturn]] void Refuse(const std::string& name, const std::string& reason) const {
    RefuseTensor(file_.path, name, reason);
  }

  void CheckKind() {
    const auto require = [&](const char* key, const char* wanted) {
      const auto& found = file_.Get<std::string>(key);
      if (found != wanted)
        Fail("{}: {} is \"{}\"; a LoRA adapter says \"{}\"", file_.path, key, found.substr(0, 100), wanted);
    };
    require("general.type", "adapter");
    require("adapter.type", "lora");
    alpha_ = file_.Get<double>("adapter.lora.alpha");
    if (!std::isfinite(alpha_)) Fail("{}: adapter.lora.alpha must be a number", file_.path);
    if (file_.metadata.contains("adapter.alora.invocation_tokens"))
      Fail("{}: adapter.alora.invocation_tokens is not supported: the adapter begins within a prompt", file_.path);
  }

  /// Returns llama.cpp's factor of the product of a matrix's a and b: alpha / rank, or 1 if alpha is 0.
  float ScaleOf(const std::string& name, int64_t rank) const {
    const double scale = alpha_ == 0 ? 1 : alpha_ / static_cast<double>(rank);
    return FactorOf(file_.path, name, scale, "adapter.lora.alpha");
  }

  void CheckShape(const std::string& name, const Tensor& tensor, const std::vector<int64_t>& wanted) const {
    CheckTensorShape(file_.path, name, tensor, wanted);
  }

  void Add(const std::string& name, const Pair& pair) {
    const std::string a = name + std::string(kLoraA), b = name + std::string(kLoraB);
    if (pair.a.shape.empty() || pair.b.shape.empty()) Refuse(pair.a.shape.empty() ? b : a, "its other half is missing");
    if (pair.b.shape.size() < 2 || pair.b.cols() < 1) Refuse(b, "expected two or three dimensions");
    const int64_t rank = pair.b.cols(), vocabulary = layout_.vocab_size, hidden = layout_.hidden_size;
    if (name == TableName(layout_, Role::kEmbedding, Naming::kGguf)) {
      CheckShape(a, pair.a, {vocabulary, rank});
      CheckShape(b, pair.b, {hidden, rank});
      contents_.embedding.a = pair.a;
      contents_.embedding.b = pair.b;
      contents_.embedding.a_by_token = true;
      contents_.embedding.scale = ScaleOf(a, rank);
      return;
    }
    if (layout_.has_head && name == TableName(layout_, Role::kHead, Naming::kGguf)) {
      CheckShape(a, pair.a, {rank, hidden});
      CheckShape(b, pair.b, {vocabulary, rank});
      const RowPlaces all = {0, vocabulary, vocabulary, vocabulary};
      Keep(name, pair, {.weights = {{Role::kHead, all}}, .scale = ScaleOf(a, rank)});
      return;
    }
    AddOfLayer(name, pair);
  }

  void AddOfLayer(const std::string& name, const Pair& pair) {
    const std::string a = name + std::string(kLoraA), b = name + std::string(kLoraB);
    const auto found = known_.find(name);
    if (found == known_.end()) Refuse(a, "the base model has no such matrix");
    const BaseMatrix& base = found->second;
    if (!base.takes_adapters) Refuse(a, "adapters may not change this matrix");
    const LayerSpec& layer = layout_.layers[static_cast<size_t>(base.layer)];
    if (layer.values_are_keys && base.weights.front().role == Role::kKey)
      Refuse(a, "this layer's keys are its values, too, which no adapter may change");
    const int64_t rank = pair.b.cols(), experts = layout_.mixture.experts;
    std::vector<int64_t> a_shape = {rank, base.cols}, b_shape = {base.rows, rank};
    if (base.stacked) {
      a_shape.insert(a_shape.begin(), experts);
      b_shape.insert(b_shape.begin(), experts);
    }
    CheckShape(a, pair.a, a_shape);
    CheckShape(b, pair.b, b_shape);
    for (int64_t expert = 0; expert < (base.stacked ? experts : 1); ++expert) {
      const Pair one = base.stacked ? Pair{ExpertOf(pair.a, expert), ExpertOf(pair.b, expert)} : pair;
      Keep(name, one,
           {.layer = base.layer,
            .expert = base.stacked ? expert : kAllExperts,
            .weights = base.weights,
            .scale = ScaleOf(a, rank)});
    }
  }

  void Keep(const std::string& name, const Pair& pair, AdapterMatrix matrix) {
    matrix.module = name;
    matrix.a = pair.a;
    matrix.b = pair.b;
    contents_.matrices.push_back(std::move(matrix));
  }

  const ModelSpec& layout_;
  const GgufFile& file_;
  const BaseMatrices known_;
  double alpha_ = 0;
  AdapterContents contents_;
};

}  // namespace

AdapterContents ReadGgufAdapter(const ModelFiles& base, const ModelSpec& layout, const GgufFile& file) {
  const auto& architecture = file.Get<std::string>("general.architecture");
  if (base.gguf() != nullptr && architecture != base.gguf()->Get<std::string>("general.architecture"))
    Fail("{}: general.architecture is \"{}\", and the base model's is \"{}\"", file.path, architecture.substr(0, 100),
         base.gguf()->Get<std::string>("general.architecture").substr(0, 100));
  return GgufAdapterReader(layout, file).Read();
}

}  // namespace quire
