#include "comm/model/adapter_readers.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "comm/base/error.h"

namespace quire {

void RefuseTensor(const std::string& file, const std::string& tensor, const std::string& reason) {
  Fail("{}: tensor {}: {}", file, tensor, reason);
}

void CheckTensorShape(const std::string& file, const std::string& name, const Tensor& tensor,
                      const std::vector<int64_t>& wanted) {
  if (tensor.shape == wanted) return;
  RefuseTensor(file, name, fmt::format("[{}] instead of [{}]", fmt::join(tensor.shape, ", "), fmt::join(wanted, ", ")));
}

float FactorOf(const std::string& file, const std::string& tensor, double factor, std::string_view alpha) {
  if (std::abs(factor) > std::numeric_limits<float>::max())
    RefuseTensor(file, tensor,
                 fmt::format("its factor, {} over the rank, is {}: beyond 32-bit numbers", alpha, factor));
  return static_cast<float>(factor);
}

}  // namespace quire
