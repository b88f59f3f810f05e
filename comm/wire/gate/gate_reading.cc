#include "comm/wire/gate/gate_reading.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/base/error.h"
#include "comm/wire/gate/handshake_words.h"

namespace quire {

using Awaits = Stranger::Awaits;

namespace {

/// Checks `word`, the part of the awaited message that has arrived.
PrefixState StateOf(Awaits awaits, std::span<const uint8_t> word) {
  switch (awaits) {
    case Awaits::kGreeting:
      return StateOfGreeting(word);
    case Awaits::kHello:
      return StateOfCommand(word, kHelloCommand);
    case Awaits::kInitiate:
      return StateOfCommand(word, kInitiateCommand);
    case Awaits::kInnerGreeting:
      return {false, kGreetingBytes - word.size()};
    case Awaits::kWelcome:
      return StateOfCommand(word, kWelcomeCommand);
    case Awaits::kVerdict: {
      const PrefixState ready = StateOfCommand(word, kReadyCommand);
      return ready.wrong ? StateOfCommand(word, kErrorCommand) : ready;
    }
    case Awaits::kTurn:
      break;
  }
  return {true, 0};
}

}  // namespace

bool AwaitsPeer(Awaits awaits) {
  return awaits == Awaits::kGreeting || awaits == Awaits::kHello || awaits == Awaits::kInitiate;
}

Reading ReadWord(int fd, Awaits awaits, std::vector<uint8_t>& word) {
  for (;;) {
    const PrefixState state = StateOf(awaits, word);
    if (state.wrong) return Reading::kWrong;
    if (state.missing == 0) return Reading::kWhole;
    const size_t have = word.size();
    word.resize(have + state.missing);
    const ssize_t got = ::recv(fd, word.data() + have, state.missing, 0);
    word.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return Reading::kGone;
    if (got < 0) return errno == EAGAIN || errno == EINTR ? Reading::kMore : Reading::kGone;
  }
}

void AskForGreeting(const PrivateSocket& inner, const std::string& endpoint, std::span<uint8_t> greeting) {
  constexpr int kWithinMillis = 5000;
  const Descriptor socket = inner.Connect();
  std::vector<uint8_t> word;
  Reading reading = Reading::kGone;
  if (socket.open() && SendWhole(socket.get(), ClientGreeting())) {
    pollfd readable{socket.get(), POLLIN, 0};
    do {
      reading = ReadWord(socket.get(), Awaits::kInnerGreeting, word);
    } while (reading == Reading::kMore && ::poll(&readable, 1, kWithinMillis) == 1);
  }
  if (reading != Reading::kWhole) Fail("the socket behind {} does not answer: {}", endpoint, std::strerror(errno));
  std::copy(word.begin(), word.end(), greeting.begin());
}

bool SendWhole(int fd, std::span<const uint8_t> bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace quire
