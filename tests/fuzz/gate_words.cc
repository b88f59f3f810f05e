// Input: the messages that a stranger sends to the gate of a CURVE port. The gate must find a wrong byte when it reads
// this byte, however the bytes are cut into pieces, and must not read a byte beyond a message.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "comm/base/descriptor.h"
#include "comm/base/error.h"
#include "comm/wire/gate/gate_reading.h"
#include "comm/wire/gate/handshake_words.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

using Awaits = Stranger::Awaits;
using Bytes = std::span<const uint8_t>;

constexpr Awaits kWords[] = {Awaits::kGreeting, Awaits::kHello, Awaits::kInitiate, Awaits::kWelcome, Awaits::kVerdict};
constexpr size_t kMostOfAWord = 9 + 1024;  // the head of a long frame, and the longest command

PrefixState StateOf(Awaits awaits, Bytes bytes) {
  switch (awaits) {
    case Awaits::kGreeting:
      return StateOfGreeting(bytes);
    case Awaits::kHello:
      return StateOfCommand(bytes, kHelloCommand);
    case Awaits::kInitiate:
      return StateOfCommand(bytes, kInitiateCommand);
    case Awaits::kWelcome:
      return StateOfCommand(bytes, kWelcomeCommand);
    default: {
      const PrefixState ready = StateOfCommand(bytes, kReadyCommand);
      return ready.wrong ? StateOfCommand(bytes, kErrorCommand) : ready;
    }
  }
}

/// The result of reading a message. `bytes` is the length of a whole message, the number of right bytes before the
/// first wrong byte, or the number of all bytes if more are missing.
struct Found {
  size_t bytes = 0;
  Reading reading = Reading::kMore;
};

/// Reads byte by byte. Aborts if one right byte lowers the number of missing bytes by more than one.
Found ReadSlowly(Awaits awaits, Bytes text) {
  for (size_t length = 0; length <= text.size(); ++length) {
    const PrefixState state = StateOf(awaits, text.first(length));
    if (state.wrong) {
      QUIRE_CHECK(length > 0, "no byte is wrong already");
      return {length - 1, Reading::kWrong};
    }
    if (state.missing == 0) return {length, Reading::kWhole};
    QUIRE_CHECK(length + state.missing <= kMostOfAWord, "a word of {} bytes and more", length + state.missing);
    if (length == text.size()) break;
    const PrefixState next = StateOf(awaits, text.first(length + 1));
    QUIRE_CHECK(next.wrong || next.missing + 1 >= state.missing, "a byte stood for several that were missing");
  }
  return {text.size(), Reading::kMore};
}

struct Pair {
  Pair() {
    int ends[2];
    QUIRE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    peer = Descriptor(ends[0]);
    gate = Descriptor(ends[1]);
  }
  Descriptor peer, gate;
};

/// Aborts unless a gate gets the same result from a connection whose bytes arrive in two pieces.
void CheckReading(Awaits awaits, Bytes text, size_t cut, const Found& found) {
  const Pair pair;
  std::vector<uint8_t> word;
  Reading reading = Reading::kMore;
  for (const Bytes piece : {text.first(cut), text.subspan(cut)}) {
    if (!piece.empty()) QUIRE_CHECK(SendWhole(pair.peer.get(), piece), "a word does not fit into a socket");
    if (reading == Reading::kMore) reading = ReadWord(pair.gate.get(), awaits, word);
  }
  QUIRE_CHECK(reading == found.reading, "read at once it is another word");
  QUIRE_CHECK(word.size() >= found.bytes && word.size() <= kMostOfAWord, "{} bytes are kept", word.size());
  QUIRE_CHECK(std::ranges::equal(word, text.first(word.size())), "a word has other bytes");
  if (reading == Reading::kWrong) return;
  QUIRE_CHECK(word.size() == found.bytes, "{} bytes of a word of {}", word.size(), found.bytes);
  std::vector<uint8_t> behind(text.size() + 1);
  const ssize_t left = ::recv(pair.gate.get(), behind.data(), behind.size(), 0);
  QUIRE_CHECK(std::max<ssize_t>(left, 0) == static_cast<ssize_t>(text.size() - word.size()), "bytes behind were read");
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const Awaits awaits = kWords[bytes.Below(std::size(kWords))];
  const uint32_t cut = bytes.Below(65536);
  const std::string_view rest = bytes.Rest();
  const Bytes text(reinterpret_cast<const uint8_t*>(rest.data()), rest.size());
  const Found found = ReadSlowly(awaits, text);
  CheckReading(awaits, text, cut % (text.size() + 1), found);
  return 0;
}
