#pragma once

#include "comm/model/formats/tensor.h"
#include "worker/model/shard.h"

namespace quire {

/// Writes columns `cols`, whole blocks of 32, of a tensor's row as the integers and the scales of a row of
/// kernels::QuantizedMatrix of a type. `packed`: the type that FormOf says of the tensor; numbers that it does not keep
/// in blocks are rounded.
void WriteQuantizedRow(const Tensor& tensor, NumberType packed, int64_t row, Range cols, NumberType type,
                       std::byte* ints, std::byte* scales);

}  // namespace quire
