#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quire {

/// True when the host accepts or refuses a TCP connection to the port within `patience`. A firewall that drops packets
/// makes a host look unreachable.
bool HostAnswers(const std::string& host, uint16_t port, std::chrono::milliseconds patience);

}  // namespace quire
