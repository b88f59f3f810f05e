#include "comm/wire/gate/handshake_words.h"

#include <algorithm>
#include <array>

namespace quire {

namespace {

using std::string_view_literals::operator""sv;

constexpr uint8_t kShortFrame = 0x04, kLongFrame = 0x06;  // command frames with a size of 1 byte, of 8 bytes
constexpr size_t kShortHead = 2, kLongHead = 9, kMostInShort = 255;

// HELLO has a name, version 1.0, and 72 zeros, which make the server's answer no longer than the HELLO.
constexpr size_t kPadding = 72;
constexpr std::string_view kHelloHead = "\x05HELLO\x01\x00"sv;
constexpr auto kHelloBegins = [] {
  std::array<char, kHelloHead.size() + kPadding> bytes{};
  std::copy(kHelloHead.begin(), kHelloHead.end(), bytes.begin());
  return bytes;
}();

/// Checks byte `at` of a client's greeting: 0xff, eight bytes with the size of an identity (all zero but the last two),
/// 0x7f, version, mechanism, role, zeros.
bool IsOfGreeting(size_t at, uint8_t byte) {
  constexpr std::string_view kMechanism = "CURVE";
  constexpr size_t kSizeEnd = 9, kVersion = 10, kName = 12, kNameEnd = 32, kRole = 32;
  if (at == 0) return byte == 0xff;
  if (at < kSizeEnd - 2) return byte == 0;
  if (at == kSizeEnd - 2) return byte <= 1;  // identities have at most 255 bytes, and the field adds one
  if (at == kSizeEnd - 1) return true;
  if (at == kSizeEnd) return byte == 0x7f;
  if (at == kVersion) return byte == 3;
  if (at == kVersion + 1) return true;  // minor version
  if (at < kNameEnd) return byte == (at - kName < kMechanism.size() ? static_cast<uint8_t>(kMechanism[at - kName]) : 0);
  return at == kRole ? byte <= 1 : byte == 0;
}

constexpr PrefixState kWrong{true, 0};

PrefixState Missing(size_t have, size_t want) { return {false, have < want ? want - have : 0}; }

}  // namespace

const HandshakeCommand kHelloCommand{{kHelloBegins.data(), kHelloBegins.size()}, 200, 200};
// INITIATE has a cookie, a box with the client's long-term key, and two properties. One of them is the client's
// identity, which has at most 255 bytes.
const HandshakeCommand kInitiateCommand{"\x08INITIATE"sv, 257, 1024};
const HandshakeCommand kWelcomeCommand{"\x07WELCOME"sv, 168, 168};
const HandshakeCommand kReadyCommand{"\x05READY"sv, 30, 1024};
const HandshakeCommand kErrorCommand{
    "\x05"
    "ERROR"sv,
    7, 263};

PrefixState StateOfGreeting(std::span<const uint8_t> bytes) {
  for (size_t i = 0; i < std::min(bytes.size(), kGreetingBytes); ++i) {
    if (!IsOfGreeting(i, bytes[i])) return kWrong;
  }
  return Missing(bytes.size(), kGreetingBytes);
}

PrefixState StateOfCommand(std::span<const uint8_t> bytes, const HandshakeCommand& command) {
  if (bytes.empty()) return Missing(0, kShortHead);
  const bool is_long = bytes[0] == kLongFrame;
  if (!is_long && bytes[0] != kShortFrame) return kWrong;
  if (is_long && command.most <= kMostInShort) return kWrong;
  const size_t head = is_long ? kLongHead : kShortHead;
  size_t size = 0;
  for (size_t i = 1; i < std::min(bytes.size(), head); ++i) {
    size = size << 8 | bytes[i];
    if (size > command.most) return kWrong;
  }
  if (bytes.size() < head) return Missing(bytes.size(), head);
  if (size < command.least || is_long != (size > kMostInShort)) return kWrong;
  const auto said = bytes.subspan(head);
  for (size_t i = 0; i < std::min(said.size(), command.begins.size()); ++i) {
    if (said[i] != static_cast<uint8_t>(command.begins[i])) return kWrong;
  }
  return Missing(said.size(), size);
}

std::span<const uint8_t> ClientGreeting() {
  static constexpr auto kGreeting = [] {
    std::array<uint8_t, kGreetingBytes> bytes{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E'};
    return bytes;
  }();
  return kGreeting;
}

}  // namespace quire
