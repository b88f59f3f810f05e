// Takes unlimited time or memory, as its input says; replay_main.cc must end this program.
#include <cstdint>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view way(reinterpret_cast<const char*>(data), size);
  std::vector<uint64_t> kept;
  volatile uint64_t turns = 0;
  if (way == "spin") {
    while (turns + 1 != 0) turns = turns + 1;
  }
  if (way == "grow") {
    for (size_t count = 1 << 20;; count *= 2) kept.resize(count, count);
  }
  return static_cast<int>(kept.size() + turns);
}
