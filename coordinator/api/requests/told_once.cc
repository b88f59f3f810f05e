#include "coordinator/api/requests/told_once.h"

#include <spdlog/spdlog.h>

#include <map>
#include <mutex>
#include <set>

namespace quire {

void TellOnce(const std::string& key, const std::string& words) {
  constexpr size_t kMostKeys = 256;
  static std::mutex mutex;
  static std::map<std::string, std::set<std::string>> told;  // logged keys by their kind
  {
    const std::lock_guard lock(mutex);
    std::set<std::string>& keys = told[key.substr(0, key.find(' '))];
    if (keys.size() >= kMostKeys || !keys.insert(key).second) return;
  }
  spdlog::info("{}", words);
}

void TellLeftOut(const std::string& what) { TellOnce(what, "left out of what the model sees: " + what); }

}  // namespace quire
