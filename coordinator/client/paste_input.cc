#include "coordinator/client/paste_input.h"

#include <editline/readline.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <string_view>

namespace quire {

namespace {

constexpr char32_t kLineEnd = U'\u2424', kTab = U'\u2409';  // Unicode's visible signs for both
constexpr std::string_view kBegin = "[200~", kEnd = "[201~";
constexpr int kRestOfKeyMillis = 50;  // most milliseconds from an escape character to the next byte of a key

/// Reads bytes from the terminal and returns characters. Removes paste marks. Returns the key sequences of special keys
/// unchanged.
class MarkedKeys {
 public:
  /// Returns the next character; EOF at the end of the input. In pasted text, returns visible signs for line ends and
  /// tabs, and skips other control characters.
  int Next() {
    for (;;) {
      const int character = NextCharacter();
      if (character == '\x1b' && TakeMark()) continue;
      if (!pasted_ || character == EOF) return character;
      if (character == '\r' && Peek(0) == '\n' && Ready()) bytes_.pop_front();
      if (character == '\r' || character == '\n') return static_cast<int>(kLineEnd);
      if (character == '\t') return static_cast<int>(kTab);
      if (character >= ' ' && character != 0x7f) return character;  // other controls would be keys of the editor
    }
  }

 private:
  /// After an escape character, reads a paste mark if one follows, and then returns true. Leaves other characters
  /// unread.
  bool TakeMark() {
    const std::string_view mark = pasted_ ? kEnd : kBegin;
    for (size_t i = 0; i < mark.size(); ++i) {
      if (Peek(i) != static_cast<unsigned char>(mark[i])) return false;
    }
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(mark.size()));
    pasted_ = !pasted_;
    return true;
  }

  /// Returns the byte at index `place` of the bytes not yet read; -1 when the terminal sends none within
  /// kRestOfKeyMillis.
  int Peek(size_t place) {
    while (bytes_.size() <= place) {
      pollfd waiting{STDIN_FILENO, POLLIN, 0};
      if (::poll(&waiting, 1, kRestOfKeyMillis) <= 0 || !Read()) return -1;
    }
    return bytes_[place];
  }

  bool Ready() const { return !bytes_.empty(); }

  bool Read() {
    char buffer[4096];
    ssize_t got = 0;
    do got = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    for (const char byte : std::string_view(buffer, static_cast<size_t>(got)))
      bytes_.push_back(static_cast<unsigned char>(byte));
    return true;
  }

  int NextByte() {
    if (bytes_.empty() && !Read()) return EOF;
    const int byte = bytes_.front();
    bytes_.pop_front();
    return byte;
  }

  /// Returns one character of UTF-8; '?' for an incomplete character. A byte that cannot begin a character is returned
  /// as it is.
  int NextCharacter() {
    const int first = NextByte();
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    int character = more == 0 ? first : first & (0x3f >> more);
    for (int i = 0; i < more; ++i) {
      const int next = Peek(0);
      if (next < 0 || (next & 0xc0) != 0x80) return '?';
      bytes_.pop_front();
      character = character << 6 | (next & 0x3f);
    }
    return character;
  }

  std::deque<unsigned char> bytes_;
  bool pasted_ = false;
};

/// The line editor calls this function for each character; its callback has no parameter for an object.
int NextOfTerminal(FILE*) {
  static MarkedKeys keys;
  return keys.Next();
}

void Replace(std::string& text, std::string_view from, char to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++at) text.replace(at, from.size(), 1, to);
}

}  // namespace

PasteInput::PasteInput() {
  ::rl_getc_function = NextOfTerminal;
  std::fputs("\x1b[?2004h", stdout);
  std::fflush(stdout);
}

PasteInput::~PasteInput() {
  std::fputs("\x1b[?2004l", stdout);
  std::fflush(stdout);
}

std::string PasteInput::Text(const std::string& line) {
  std::string text = line;
  Replace(text, "\u2424", '\n');
  Replace(text, "\u2409", '\t');
  return text;
}

}  // namespace quire
