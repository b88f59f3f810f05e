#include "comm/model/formats/quantized_matrices.h"

namespace quire {

void JoinQuantized(TensorMap& tensors, const StoredQuants& quants, const std::string& path) {
  if (quants.method == StoredQuants::Method::kNone) return;
  DropActivationScales(tensors);
  QuantizedParts parts(tensors, path);
  switch (quants.method) {
    case StoredQuants::Method::kNone:
      return;
    case StoredQuants::Method::kGptq:
      return JoinGptq(parts, quants);
    case StoredQuants::Method::kAwq:
      return JoinAwq(parts, quants);
    case StoredQuants::Method::kFloat8:
      return JoinFp8(parts, quants);
    case StoredQuants::Method::kCompressedTensors:
      return JoinCompressedTensors(parts, quants);
    case StoredQuants::Method::kModelOpt:
      return JoinModelOpt(parts, quants);
    case StoredQuants::Method::kBitsAndBytes:
      return JoinBitsAndBytes(parts);
  }
}

}  // namespace quire
