#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "comm/wire/gate/handshake_words.h"

namespace quire {

/// Finds, in the bytes that a ZeroMQ peer sends (ZMTP 3, RFC 23), where its first message or subscription begins. A
/// greeting and commands (READY, PING) come before that message. The object stores at most 300 bytes.
class FirstMessage {
 public:
  /// Takes the next bytes. Returns true once the message or subscription has begun.
  bool Reached(std::span<const char> bytes);

 private:
  bool EndsHead(char byte);

  size_t skip_ = kGreetingBytes;  // bytes that come before the head of the next frame
  std::string head_;              // the received part of a frame's flags, length and command name
  bool reached_ = false;
};

}  // namespace quire
