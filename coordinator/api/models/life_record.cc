#include "coordinator/api/models/life_record.h"

#include <fmt/format.h>

namespace quire {

std::string InWords(const LifeRecord& model) {
  switch (model.phase) {
    case LifePhase::kUnloaded:
      return model.name + " is not loaded";
    case LifePhase::kLoading:
      return model.name + " is loading";
    case LifePhase::kUnloading:
      return model.name + " is unloading";
    case LifePhase::kFallingAsleep:
      return model.name + " is falling asleep";
    case LifePhase::kAsleep:
      return model.name + " is asleep";
    case LifePhase::kLoaded:
      break;
  }
  return fmt::format("{} has {} request{}", model.name, model.users, model.users == 1 ? "" : "s");
}

std::vector<size_t> FewestToFree(const std::vector<int64_t>& held, int64_t missing) {
  std::vector<size_t> chosen;
  int64_t gained = 0;
  for (size_t place = 0; place < held.size() && gained < missing; ++place) {
    chosen.push_back(place);
    gained += held[place];
  }
  if (gained < missing) return {};
  for (size_t c = chosen.size(); c-- > 0;) {
    if (gained - held[chosen[c]] < missing) continue;
    gained -= held[chosen[c]];
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(c));
  }
  return chosen;
}

}  // namespace quire
