#include "worker/cpu/kv_cache.h"

#include "comm/base/error.h"

namespace quire {

NumberType KvTypeOf(KvCacheDtype dtype) {
  switch (dtype) {
    case KvCacheDtype::kAuto:
    case KvCacheDtype::kFloat32:
      return NumberType::kF32;
    case KvCacheDtype::kFloat16:
      return NumberType::kF16;
    case KvCacheDtype::kInt8:
      return NumberType::kInt8;
    case KvCacheDtype::kFp8:
      break;
  }
  FailSettings("the CPU keeps no KV cache of type {}", NameOf(dtype));
}

}  // namespace quire
