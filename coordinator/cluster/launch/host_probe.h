#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quire {

/// True when the host is there: it accepts or refuses a TCP connection to the port in time. A firewall that swallows
/// packets looks like a host that is gone.
bool HostAnswers(const std::string& host, uint16_t port, std::chrono::milliseconds patience);

}  // namespace quire
