#include "coordinator/server/settings_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "comm/base/error.h"

namespace quire {

void SettingsFile::Follow(boost::asio::io_context& io, AdminControl* control) {
  if (control == nullptr) return;
  try {
    Topology now = read_();
    control->Follow(io, last_, now);
    if (!LiveSettings::AreEqualButForLiveKeys(last_, now))
      spdlog::warn("settings that need a restart have changed; docs/settings.md lists those that need none");
    last_ = std::move(now);
  } catch (const Error& error) {
    spdlog::error("kept the settings as they were: {}", error.what());
  }
}

}  // namespace quire
