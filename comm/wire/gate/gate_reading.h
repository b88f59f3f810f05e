#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/gate/gate_strangers.h"

namespace quire {

/// The result of reading a handshake message: incomplete, complete, invalid, or connection closed.
enum class Reading { kMore, kWhole, kWrong, kGone };

/// True when the next message comes from the peer. False when it comes from the ZeroMQ socket, or when no message is
/// awaited.
bool AwaitsPeer(Stranger::Awaits awaits);

/// Reads as much of the awaited message as has arrived, and no byte beyond its end.
Reading ReadWord(int fd, Stranger::Awaits awaits, std::vector<uint8_t>& word);

/// Sends all bytes in one call; returns false when the socket did not take all of them. A handshake message always fits
/// into an empty socket buffer.
bool SendWhole(int fd, std::span<const uint8_t> bytes);

/// Reads the greeting of the ZeroMQ socket behind a gate into `greeting`. The greeting is the same for every client, so
/// the gate sends it without contacting that socket again. Throws Error, which names `endpoint`, when the socket does
/// not answer.
void AskForGreeting(const PrivateSocket& inner, const std::string& endpoint, std::span<uint8_t> greeting);

}  // namespace quire
