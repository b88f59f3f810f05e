#pragma once

#include <cstdint>
#include <string>

namespace quire::bench {

/// The shape of an 8B Llama with fewer layers: bf16, a vocabulary of 128,256, a tied head.
struct MadeUpShape {
  int64_t layers = 2, hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, mlp = 14336, vocab = 128256;

  int64_t LayerParameters() const { return hidden * (2 * heads + 2 * kv_heads) * head_dim + 3 * hidden * mlp; }
  int64_t HeadParameters() const { return hidden * vocab; }
};

/// Writes config.json and model.safetensors with random weights. With `folder`, the files are made once and reused for
/// the same shape. Otherwise they are in a temporary directory, which is deleted with this object.
class MadeUpModel {
 public:
  explicit MadeUpModel(const MadeUpShape& shape, const std::string& folder = "");
  ~MadeUpModel();
  MadeUpModel(const MadeUpModel&) = delete;
  MadeUpModel& operator=(const MadeUpModel&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool kept_;
};

}  // namespace quire::bench
