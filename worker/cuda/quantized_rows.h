#pragma once

#include "comm/model/formats/tensor.h"
#include "worker/model/shard.h"

namespace quire {

/// Where a row's parts go (kernels::QuantizedParts).
struct QuantizedRow {
  std::byte *ints, *highs, *scales;
};

/// Writes columns `cols`, whole blocks of 32, of a tensor's row as a row of a kernels::QuantizedMatrix of a type.
/// `packed`: the type that FormOf says of the tensor; numbers that it does not keep in blocks are rounded.
void WriteQuantizedRow(const Tensor& tensor, NumberType packed, int64_t row, Range cols, NumberType type,
                       const QuantizedRow& to);

}  // namespace quire
