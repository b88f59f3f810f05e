#include "comm/model/formats/mxfp4.h"

#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr int64_t kBlockBytes = 16, kBlockNumbers = 32;

}  // namespace

void JoinMxFp4(TensorMap& tensors, const std::string& path) {
  TensorMap joined;
  for (auto& [name, tensor] : tensors) {
    if (tensor.type != NumberType::kU8 || !name.ends_with(kBlocks)) continue;
    const std::string whole = name.substr(0, name.size() - kBlocks.size());
    const auto scales = tensors.find(whole + std::string(kScales));
    std::vector<int64_t> shape = tensor.shape;
    const bool whole_blocks = !shape.empty() && shape.back() == kBlockBytes;
    if (whole_blocks) shape.pop_back();
    if (!whole_blocks || shape.empty() || scales == tensors.end() || scales->second.type != NumberType::kU8 ||
        scales->second.shape != shape) {
      Fail("{}: tensor {} needs {}{} of its shape but for the last dimension, which is {}", path, name, whole, kScales,
           kBlockBytes);
    }
    if (__builtin_mul_overflow(shape.back(), kBlockNumbers, &shape.back()))
      Fail("{}: tensor {} is too long", path, name);
    joined.emplace(whole, Tensor{NumberType::kMxFp4Pairs, std::move(shape), tensor.data, scales->second.data});
  }
  for (auto& [name, tensor] : joined) {
    tensors.erase(name + std::string(kBlocks));
    tensors.erase(name + std::string(kScales));
    if (!tensors.emplace(name, std::move(tensor)).second) Fail("{}: tensor {} is there twice", path, name);
  }
}

void DropMasks(TensorMap& tensors) {
  std::erase_if(tensors, [](const auto& entry) {
    return entry.second.type == NumberType::kU8 && !entry.first.ends_with(".weight");
  });
}

}  // namespace quire
