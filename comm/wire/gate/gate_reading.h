#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/gate/gate_strangers.h"

namespace quire {

/// The result of reading a handshake message: incomplete, complete, invalid, or connection closed.
enum class Reading { kMore, kWhole, kWrong, kGone };

/// True when the peer sends the next message; false when the ZeroMQ socket sends it, or when no message is awaited.
bool AwaitsPeer(Stranger::Awaits awaits);

/// Appends to `word` as much of the awaited message as has arrived, and no byte beyond the message's end.
Reading ReadWord(int fd, Stranger::Awaits awaits, std::vector<uint8_t>& word);

/// Sends all bytes in one call. Returns false when the socket did not take all of them; an empty socket buffer always
/// has room for a handshake message.
bool SendWhole(int fd, std::span<const uint8_t> bytes);

/// Reads the greeting of the ZeroMQ socket that the gate protects. This greeting is the same for every client, so the
/// gate repeats it to each without asking that socket again. Throws Error, which names `endpoint`, when the socket does
/// not answer.
void AskForGreeting(const PrivateSocket& inner, const std::string& endpoint, std::span<uint8_t> greeting);

}  // namespace quire
