#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// A function that a pooled head applies to each number.
enum class HeadActivation : uint8_t {
  kNone,
  kTanh,
  kGelu,  // the function of Activation::kGelu
  kRelu,
};

/// The layers that turn the pooled row of a prompt into the model's answer: the score of a pair of texts, or the scores
/// of classes. The row becomes norm(activation(row * inner^T + bias)), and the answer is row * out^T + bias.
struct PooledHead {
  int64_t outputs = 0;  // numbers of the answer; 0: the model has no such layers, and the row is the answer
  bool mean = false;    // the pooled row is the mean of all rows; otherwise it is the first row
  bool inner = false;   // the head has an inner matrix, [hidden, hidden]
  bool inner_bias = false;
  HeadActivation activation = HeadActivation::kNone;  // activation after the inner layer
  bool norm = false;       // a LayerNorm follows the activation, with ModelSpec::norm_epsilon
  bool norm_bias = false;  // the LayerNorm has a bias
  // The next two settings describe layers that are applied to every token's row (bge-m3), in addition to the layers for
  // the pooled row or in place of them. The weights of these layers are in separate files.
  bool sparse =
      false;  // a row's weight is max(0, row * sparse^T + bias): how much its token counts in a search by words
  int64_t colbert = 0;  // length of a row's vector row * colbert^T + bias, for late interaction; 0: no such layer
};

/// Returns every field as text, for fingerprints.
std::string TextOf(const PooledHead& head);

/// Throws Error, which begins with `path`, when a number is out of range.
void CheckPooledHead(const PooledHead& head, const std::string& path);

}  // namespace quire
