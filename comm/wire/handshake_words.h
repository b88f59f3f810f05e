#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

/// The bytes of a CURVE handshake (ZMTP 3, RFC 23 and RFC 26), which have known sizes. A prefix of them can be told to
/// be wrong at its first wrong byte, so nobody has to keep what will never be a handshake.
struct HandshakeCommand {
  std::string_view begins;  // the length of the name, the name, and what never differs behind it
  size_t least, most;       // bytes of the command, without the head of its frame; at most 64 KiB
};

constexpr size_t kGreetingBytes = 64;

/// A client's first command: its key, and a box that only the holder of the server's secret key can open.
extern const HandshakeCommand kHelloCommand;
/// A client's second command: who it is.
extern const HandshakeCommand kInitiateCommand;
/// The server's answers: to the first, and to the second when the client may come in.
extern const HandshakeCommand kWelcomeCommand;
extern const HandshakeCommand kReadyCommand;
/// The server's answer to a client that may not come in.
extern const HandshakeCommand kErrorCommand;

/// Where a prefix stands.
struct PrefixState {
  bool wrong = false;  // no bytes behind it make it right
  size_t missing = 0;  // so many bytes come next in any case; 0: it is whole
};

/// A client's greeting: version 3, mechanism CURVE.
PrefixState StateOfGreeting(std::span<const uint8_t> bytes);
/// A frame that is to hold this command.
PrefixState StateOfCommand(std::span<const uint8_t> bytes, const HandshakeCommand& command);

/// What a client says first, for who asks a server for its greeting.
std::span<const uint8_t> ClientGreeting();

}  // namespace quire
