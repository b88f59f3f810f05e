#pragma once

#include "comm/model/formats/tensor.h"
#include "worker/model/shard.h"

namespace quire {

/// Says where the parts of a row are written (kernels::QuantizedParts).
struct QuantizedRow {
  std::byte *ints, *highs, *scales;
};

/// Writes columns `cols` (whole blocks of 32) of a tensor's row as a row of a kernels::QuantizedMatrix of type `type`.
/// `packed`: the tensor's FormOf type; if this type has no blocks, the numbers are rounded.
void WriteQuantizedRow(const Tensor& tensor, NumberType packed, int64_t row, Range cols, NumberType type,
                       const QuantizedRow& to);

}  // namespace quire
