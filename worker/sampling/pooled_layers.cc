#include "worker/sampling/pooled_layers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "comm/base/error.h"
#include "worker/model/stored_rows.h"

namespace quire {

namespace {

/// Returns all numbers of a weight, row by row; empty if the model does not have it.
std::vector<float> NumbersOf(const ModelFiles& files, Role role) {
  if (!files.Has(role)) return {};
  const Tensor& tensor = files.Get(role);
  std::vector<float> numbers(static_cast<size_t>(tensor.rows() * tensor.cols()));
  for (int64_t row = 0; row < tensor.rows(); ++row)
    DecodeRow(tensor, row, 0, tensor.cols(), numbers.data() + row * tensor.cols());
  return numbers;
}

double Activated(HeadActivation activation, double x) {
  switch (activation) {
    case HeadActivation::kNone:
      return x;
    case HeadActivation::kTanh:
      return std::tanh(x);
    case HeadActivation::kGelu:
      return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    case HeadActivation::kRelu:
      return std::max(x, 0.0);
  }
  Fail("unknown activation of a pooled head");
}

}  // namespace

PooledLayers::PooledLayers(const ModelFiles& files)
    : head_(files.spec().pooled_head),
      epsilon_(files.spec().norm_epsilon),
      inner_{NumbersOf(files, Role::kPooledIn), NumbersOf(files, Role::kPooledInBias)},
      out_{NumbersOf(files, Role::kPooledOut), NumbersOf(files, Role::kPooledOutBias)},
      norm_(NumbersOf(files, Role::kPooledNorm)),
      norm_bias_(NumbersOf(files, Role::kPooledNormBias)) {}

std::vector<double> PooledLayers::Layer::Multiply(const std::vector<double>& x) const {
  std::vector<double> y(matrix.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    double sum = bias.empty() ? 0 : bias[row];
    for (size_t i = 0; i < x.size(); ++i) sum += double{matrix[row * x.size() + i]} * x[i];
    y[row] = sum;
  }
  return y;
}

void PooledLayers::Norm(std::vector<double>& row) const {
  const auto count = static_cast<double>(row.size());
  double mean = 0, variance = 0;
  for (const double x : row) mean += x / count;
  for (const double x : row) variance += (x - mean) * (x - mean) / count;
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = (row[i] - mean) / std::sqrt(variance + epsilon_) * norm_[i];
    if (!norm_bias_.empty()) row[i] += norm_bias_[i];
  }
}

void PooledLayers::Apply(std::vector<float>& row) const {
  if (head_.outputs == 0) return;
  std::vector<double> x(row.begin(), row.end());
  if (head_.inner) x = inner_.Multiply(x);
  for (double& number : x) number = Activated(head_.activation, number);
  if (head_.norm) Norm(x);
  x = out_.Multiply(x);
  row.assign(x.begin(), x.end());
}

}  // namespace quire
