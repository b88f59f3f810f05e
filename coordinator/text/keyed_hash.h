#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

/// For tables of texts that come with models: SipHash under a key that is random for each process. A file that is made
/// for such tables to be slow would have to know it.
struct KeyedHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const;
};

/// A random number.
uint64_t NewSecret();

}  // namespace quire
