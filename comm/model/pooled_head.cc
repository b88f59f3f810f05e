#include "comm/model/pooled_head.h"

#include "comm/base/error.h"

namespace quire {

std::string TextOf(const PooledHead& head) {
  const auto& [outputs, mean, inner, inner_bias, activation, norm, norm_bias, sparse, colbert] = head;
  return fmt::format("{} {} {} {} {} {} {} {} {}", outputs, mean, inner, inner_bias, static_cast<int>(activation), norm,
                     norm_bias, sparse, colbert);
}

void CheckPooledHead(const PooledHead& head, const std::string& path) {
  constexpr int64_t kMostOutputs = 4096;  // far above the number of classes of any real model
  if (head.outputs < 0 || head.outputs > kMostOutputs) {
    Fail("{}: {} labels, at most {} are supported", path, head.outputs, kMostOutputs);
  }
  if (head.colbert < 0 || head.colbert > kMostOutputs)
    Fail("{}: {} numbers for each token, at most {} are supported", path, head.colbert, kMostOutputs);
}

}  // namespace quire
