#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/gate_strangers.h"

namespace quire {

/// How far a word came.
enum class Reading { kMore, kWhole, kWrong, kGone };

/// True: the peer speaks next. False: the socket behind does, or nobody.
bool AwaitsPeer(Stranger::Awaits awaits);

/// Reads as much of the awaited word as there is, and no byte behind it.
Reading ReadWord(int fd, Stranger::Awaits awaits, std::vector<uint8_t>& word);

/// False: the socket did not take all of it at once, which one of a handshake always does.
bool SendWhole(int fd, std::span<const uint8_t> bytes);

/// Fills in what the socket behind a gate says first, which is the same for everybody, so strangers hear it without
/// troubling that socket. `endpoint` is for the Error that is thrown when it does not answer.
void AskForGreeting(const PrivateSocket& inner, const std::string& endpoint, std::span<uint8_t> greeting);

}  // namespace quire
