#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "tests/support/rewritten_model.h"

namespace quire::test {

/// A golden model together with the prediction layer that tests/golden/make_mtp_golden.py made for it.
class PredictionModel {
 public:
  explicit PredictionModel(const std::string& name) : model_(name) {
    model_.AddTensorsOf("mtp/" + name + ".safetensors");
    path_ = model_.Write();
  }
  const std::string& path() const { return path_; }
  ModelFiles Open() const { return ModelFiles::Open(path_); }
  ModelFiles OpenPrediction() const { return ModelFiles::OpenPrediction(path_); }

 private:
  RewrittenModel model_;
  std::string path_;
};

/// A model whose prediction layer is always right. Embeddings are unit vectors, layers add nothing to the residual, and
/// the output head makes 7 * t + 3, modulo the vocabulary's size, the likeliest token after token t. The prediction
/// layer reads only the hidden state of the position before its own token, and ignores the token. So a hidden state of
/// another position gives a wrong draft.
class ForeseenModel {
 public:
  static constexpr int kTokens = 53, kHidden = 64;  // 53 is prime, so every token has one predecessor

  static int After(int token) { return (7 * token + 3) % kTokens; }

  ForeseenModel() : model_("glm4moe") {
    const int layers = 3, heads = 4, dim = 16, columns = 32;
    model_.config.update({{"hidden_size", kHidden},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", heads},
                          {"num_key_value_heads", 2},
                          {"head_dim", dim},
                          {"intermediate_size", columns},
                          {"vocab_size", kTokens},
                          {"first_k_dense_replace", layers},
                          {"attention_bias", false},
                          {"use_qk_norm", false},
                          {"eos_token_id", 0},
                          {"dtype", "float32"}});
    model_.tensors.clear();
    for (int layer = 0; layer <= layers; ++layer) {
      const std::string begin = "model.layers." + std::to_string(layer) + ".";
      const auto matrix = [&](const char* name, int64_t rows, int64_t cols) {
        Put(begin + name, rows, cols, [&](int64_t row, int64_t col) {  // any numbers that are not all alike
          return std::sin(static_cast<double>(row * cols + col + layer));
        });
      };
      matrix("self_attn.q_proj.weight", heads * dim, kHidden);
      matrix("self_attn.k_proj.weight", 2 * dim, kHidden);
      matrix("self_attn.v_proj.weight", 2 * dim, kHidden);
      matrix("mlp.gate_proj.weight", columns, kHidden);
      matrix("mlp.up_proj.weight", columns, kHidden);
      model_.AddTensor(begin + "self_attn.o_proj.weight", {kHidden, heads * dim});
      model_.AddTensor(begin + "mlp.down_proj.weight", {kHidden, columns});
      Ones(begin + "input_layernorm.weight");
      Ones(begin + "post_attention_layernorm.weight");
    }
    Ones("model.norm.weight");
    Put("model.embed_tokens.weight", kTokens, kHidden, [](int64_t row, int64_t col) { return row == col ? 1.0 : 0.0; });
    Put("lm_head.weight", kTokens, kHidden,
        [](int64_t row, int64_t col) { return col < kTokens && After(static_cast<int>(col)) == row ? 1.0 : 0.0; });
    const std::string begin = "model.layers." + std::to_string(layers) + ".";
    for (const char* norm : {"enorm", "hnorm", "shared_head.norm"}) Ones(begin + norm + ".weight");
    Put(begin + "eh_proj.weight", kHidden, 2 * kHidden, [](int64_t row, int64_t col) {
      const int64_t token = col - kHidden;
      return token >= 0 && token < kTokens && After(static_cast<int>(token)) == row ? 1.0 : 0.0;
    });
    path_ = model_.Write();
  }
  const std::string& path() const { return path_; }
  ModelFiles Open() const { return ModelFiles::Open(path_); }
  ModelFiles OpenPrediction() const { return ModelFiles::OpenPrediction(path_); }

 private:
  template <class Number>
  void Put(const std::string& name, int64_t rows, int64_t cols, const Number& number) {
    model_.AddTensor(name, {rows, cols});
    std::string& bytes = model_.tensors[name].bytes;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto x = static_cast<float>(number(i / cols, i % cols));
      std::memcpy(&bytes[static_cast<size_t>(i) * sizeof(x)], &x, sizeof(x));
    }
  }
  void Ones(const std::string& name) {
    model_.AddTensor(name, {kHidden});
    std::string& bytes = model_.tensors[name].bytes;
    for (size_t i = 0; i < kHidden; ++i) {
      const float one = 1;
      std::memcpy(&bytes[i * sizeof(one)], &one, sizeof(one));
    }
  }

  RewrittenModel model_;
  std::string path_;
};

}  // namespace quire::test
