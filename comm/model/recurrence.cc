#include "comm/model/recurrence.h"

#include "comm/base/error.h"

namespace quire {

void CheckRecurrence(const Recurrence& r, const std::string& path) {
  constexpr int64_t kMaxTaps = 8;  // largest number of taps for which the kernels have fixed arrays
  constexpr int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12, kMaxChannels = 1 << 24;
  const auto check = [&](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return;
    Fail("{}: {} of layers with states, {}, is out of range; it may be {} to {}", path, name, value, least, most);
  };
  check("the convolution's length", r.taps, 2, kMaxTaps);
  if (r.channels > 0) return check("the number of channels", r.channels, 1, kMaxChannels);
  check("the number of key heads", r.key_heads, 1, kMaxHeads);
  check("the number of value heads", r.value_heads, 1, kMaxHeads);
  check("the size of key heads", r.key_dim, 1, kMaxDim);
  check("the size of value heads", r.value_dim, 1, kMaxDim);
  check("the number of channels of queries", r.key_heads * r.key_dim, 1, kMaxChannels);
  check("the number of channels of values", r.value_heads * r.value_dim, 1, kMaxChannels);
  if (r.value_heads % r.key_heads != 0)
    Fail("{}: {} value heads do not divide over {} key heads", path, r.value_heads, r.key_heads);
}

// The structured binding names every member, so a new member does not compile until it is added here.
std::string TextOf(const Recurrence& recurrence) {
  const auto& [taps, channels, key_heads, value_heads, key_dim, value_dim, taps_bias, norm, gates, betas, tiled,
               negated] = recurrence;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", taps, channels, key_heads, value_heads, key_dim, value_dim,
                     taps_bias, static_cast<int>(norm), gates, betas, tiled, negated);
}

}  // namespace quire
