// Opens the layers that are applied to every token's output row, which bge-m3 has in files of their own.
#include <string_view>
#include <utility>

#include "comm/base/error.h"
#include "comm/model/architectures/encoder_family.h"
#include "comm/model/formats/safetensors.h"
#include "comm/model/model_files.h"
#include "comm/model/model_tree.h"

namespace quire {

void ModelFiles::OpenTokenLayers() {
  using architectures::kColbertLayer, architectures::kColbertLayerBias, architectures::kSparseLayer,
      architectures::kSparseLayerBias;
  if (!spec_.bidirectional) return;
  const ModelTree tree(path_);
  for (const auto& [layer, bias] : {std::pair{kSparseLayer, kSparseLayerBias}, {kColbertLayer, kColbertLayerBias}}) {
    const std::string stem = std::string(layer).substr(0, std::string_view(layer).find('.'));
    const std::string file = stem + ".safetensors";
    if (!tree.Has(file)) {
      if (tree.Has(stem + ".pt"))
        notes_.push_back(
            fmt::format("{}: {}.pt is left out: it is a pickle, which can run code; {} is read", path_, stem, file));
      continue;
    }
    files_.emplace_back(tree.Open(file));
    TensorMap tensors = ReadSafetensors(files_.back().bytes(), files_.back().path());
    const auto weight = tensors.find("weight"), its_bias = tensors.find("bias");
    if (weight == tensors.end() || its_bias == tensors.end() || tensors.size() != 2)
      Fail("{}: must hold the tensors weight and bias, and no others", files_.back().path());
    if (std::string_view(layer) == kSparseLayer) {
      spec_.pooled_head.sparse = true;
    } else {
      spec_.pooled_head.colbert = weight->second.rows();
      CheckPooledHead(spec_.pooled_head, files_.back().path());
    }
    tensors_[layer] = std::move(weight->second);
    tensors_[bias] = std::move(its_bias->second);
  }
}

}  // namespace quire
