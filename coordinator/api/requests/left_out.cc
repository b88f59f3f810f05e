#include "coordinator/api/requests/left_out.h"

#include <spdlog/spdlog.h>

#include <mutex>
#include <set>

namespace quire {

void TellLeftOut(const std::string& what) {
  constexpr size_t kMostTexts = 256;
  static std::mutex mutex;
  static std::set<std::string> told;
  {
    const std::lock_guard lock(mutex);
    if (told.size() >= kMostTexts || !told.insert(what).second) return;
  }
  spdlog::info("left out of what the model sees: {}", what);
}

}  // namespace quire
