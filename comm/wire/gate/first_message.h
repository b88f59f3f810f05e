#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "comm/wire/gate/handshake_words.h"

namespace quire {

/// Finds, in the bytes that a ZeroMQ peer sends (ZMTP 3, RFC 23), where its first message or subscription begins.
/// Before it come a greeting and commands (READY, PING). Keeps at most 300 bytes.
class FirstMessage {
 public:
  /// Takes the next bytes. Returns true once the message or subscription has begun.
  bool Reached(std::span<const char> bytes);

 private:
  bool EndsHead(char byte);

  size_t skip_ = kGreetingBytes;  // bytes that come before the head of the next frame
  std::string head_;              // flags and length of a frame, and the name of its command, as far as they have come
  bool reached_ = false;
};

}  // namespace quire
