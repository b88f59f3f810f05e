#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace quire::test {

/// The shape of a model with random weights. With latent attention, head_dim is the length of a latent.
struct ModelShape {
  int64_t hidden = 128, layers = 2, heads = 2, kv_heads = 1, head_dim = 64, intermediate = 96, vocab = 173;
  int64_t sliding_window = 0;  // in tokens; for every layer except, in the Qwen family, the first
  bool tied = false;
  bool parallel = true;          // for gpt_neox and stablelm: parallel attention and MLP
  std::string dtype = "BF16";    // number type of the safetensors: F32, F16 or BF16
  std::string family = "llama";  // config.json's model_type; a llama with a window becomes a mistral
  /// For gemma4_text. True: all layers except the first two use the keys and values of these two, and the model has
  /// layer inputs (ModelSpec::layer_input_size). False: every other layer uses its keys as values, with one key head.
  bool shares_kv = true;
  bool experts = false;  // for gemma4_text, which then shares no keys, and nemotron_h
  /// With 4 or 8, the layers' matrices are compressed-tensors' packed integers of this many bits, with a scale for each
  /// 32 columns. With 4 bits, the MLPs' matrices have zero points.
  int packed_bits = 0;
  bool mxfp4 = false;  // for gpt_oss: MXFP4 experts
  bool fp8 = false;    // FP8 matrices in layers with a scale for each 128 x 128 block; scales of the KV cache
};

/// Writes config.json and model.safetensors with random weights into a new directory. The destructor removes the
/// directory.
class RandomModel {
 public:
  RandomModel(const ModelShape& shape, uint64_t seed);
  ~RandomModel();
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;

  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace quire::test
