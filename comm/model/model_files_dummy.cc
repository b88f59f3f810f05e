// Makes up the weights of a model from its configuration alone (load_format dummy).
#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/model/architecture.h"
#include "comm/model/model_files.h"
#include "comm/model/model_tree.h"

namespace quire {

namespace {

constexpr size_t kMostBytes = 64 << 20;  // the most bytes that config.json may have

/// Returns the number type of made-up weights: the type that config.json gives for the real weights. Throws Error when
/// the real weights are quantised.
NumberType TypeToMakeUp(const ModelTree& tree) {
  const Json json = ParseJson(tree.ReadText("config.json", kMostBytes), tree.PathOf("config.json"));
  const HfConfig config(json, tree.PathOf("config.json"));
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (config.Has(key))
      Fail(
          "{}: load_format dummy makes plain weights only: take {} out of a copy of the file, and ask for "
          "--quantization",
          config.path(), key);
  }
  const std::string dtype = config.Text("dtype", config.Text("torch_dtype", "bfloat16"));
  return dtype == "float32" ? NumberType::kF32 : dtype == "float16" ? NumberType::kF16 : NumberType::kBF16;
}

}  // namespace

void ModelFiles::MakeUp(const ModelTree& tree, bool prediction) {
  if (prediction) Fail("{}: load_format dummy makes up no layers that predict further tokens", path_);
  const NumberType type = TypeToMakeUp(tree);
  const std::vector<ExpectedTensor> tensors = ExpectedTensors(spec_, WeightsOf(spec_), Naming::kHf);
  // Successive tensors begin at different offsets of the made-up numbers (4,096 offsets, then again from the first), so
  // that they differ.
  constexpr int64_t kStep = 4096 + 64, kPlaces = 4096;
  int64_t longest = 0, longest_norm = 0;
  for (const ExpectedTensor& tensor : tensors)
    longest = std::max(longest, CheckedBytes(type, tensor.shape, path_ + ": " + tensor.name));
  for (const ExpectedTensor& tensor : tensors) {
    if (IsNorm(tensor.role)) longest_norm = std::max(longest_norm, CheckedBytes(type, tensor.shape, path_));
  }
  made_up_.emplace_back(static_cast<size_t>(longest) + kStep * kPlaces, type);
  ones_.resize(static_cast<size_t>(longest_norm));
  for (size_t at = 0; at < ones_.size(); at += static_cast<size_t>(ByteSize(type))) PutNumber(1, type, &ones_[at]);
  int64_t place = 0;
  for (const ExpectedTensor& tensor : tensors) {
    const auto bytes = static_cast<size_t>(CheckedBytes(type, tensor.shape, path_));
    const auto from = IsNorm(tensor.role) ? std::span<const std::byte>(ones_)
                                          : made_up_[0].bytes().subspan(static_cast<size_t>(place++ % kPlaces * kStep));
    tensors_.emplace(tensor.name, Tensor{type, tensor.shape, from.first(bytes)});
  }
}

}  // namespace quire
