#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace quire {

/// True when the host accepts or refuses a TCP connection to this port within `patience`. A host behind a firewall that
/// drops packets seems unreachable.
bool HostAnswers(const std::string& host, uint16_t port, std::chrono::milliseconds patience);

}  // namespace quire
