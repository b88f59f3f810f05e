#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

/// A command of the CURVE handshake (ZMTP 3, RFC 23 and RFC 26). The sizes of all handshake messages have known limits,
/// and an invalid message is recognised at its first wrong byte. So the gate stores no bytes that cannot belong to a
/// handshake.
struct HandshakeCommand {
  std::string_view begins;  // length of the name, the name, and the constant bytes after it
  size_t least, most;       // bytes of the command, without the head of its frame; at most 64 KiB
};

constexpr size_t kGreetingBytes = 64;

/// The client's first command: its key, and a box that only the holder of the server's secret key can open.
extern const HandshakeCommand kHelloCommand;
/// The client's second command: its identity and its long-term key.
extern const HandshakeCommand kInitiateCommand;
/// The server's answers: WELCOME to HELLO, and READY to INITIATE when the client is accepted.
extern const HandshakeCommand kWelcomeCommand;
extern const HandshakeCommand kReadyCommand;
/// The server's answer to a client that is refused.
extern const HandshakeCommand kErrorCommand;

/// The state of a message of which some bytes have arrived.
struct PrefixState {
  bool wrong = false;  // no further bytes can make the message valid
  size_t missing = 0;  // number of bytes that must come next in any case; 0: the message is complete
};

/// Checks the first bytes of a client's greeting, which must have version 3 and mechanism CURVE.
PrefixState StateOfGreeting(std::span<const uint8_t> bytes);
/// Checks the first bytes of a frame that must contain this command.
PrefixState StateOfCommand(std::span<const uint8_t> bytes, const HandshakeCommand& command);

/// Returns the greeting that a client sends. The gate sends this greeting to ask a server for its greeting.
std::span<const uint8_t> ClientGreeting();

}  // namespace quire
