#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace quire::test {

/// Shapes of a model that is made up.
struct ModelShape {
  int64_t hidden = 128, layers = 2, heads = 2, kv_heads = 1, head_dim = 64, intermediate = 96, vocab = 173;
  int64_t sliding_window = 0;  // of every layer; in the Qwen family, of all but the first
  bool tied = false;
  bool parallel = true;          // of gpt_neox and stablelm: attention and MLP side by side
  std::string dtype = "BF16";    // of the safetensors: F32, F16 or BF16
  std::string family = "llama";  // config.json's model_type; a llama with a window is a mistral
  /// Of gemma4_text: all layers but the first two read keys and values of those, and layers get inputs of their own;
  /// otherwise values of every other layer are its keys, of one head.
  bool shares_kv = true;
  bool experts = false;  // of gemma4_text, which then shares no keys
  /// 4 or 8: matrices of layers as compressed-tensors' packed integers of so many bits, a scale for each 32 columns;
  /// of 4 bits those of MLPs with zero points.
  int packed_bits = 0;
  bool mxfp4 = false;  // of gpt_oss: experts as MXFP4
  bool fp8 = false;    // matrices of layers as FP8, a factor for 128 rows and columns; factors of the KV cache
};

/// Writes config.json and model.safetensors of random weights into a new directory, which goes with the object.
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
