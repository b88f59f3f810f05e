#include "comm/model/formats/mapping_errors.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

namespace quire {

namespace {

constexpr size_t kMaxMappings = 512, kMaxText = 512;

/// A mapping that a signal handler can read. All its fields are set while `begin` is set.
struct Mapping {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<bool> taken{false};
  size_t size = 0;
  char path[kMaxText] = {};
};

/// The known mappings, as static data, because a signal handler can reach nothing else.
struct Known {
  std::array<Mapping, kMaxMappings> mappings;
  char who[kMaxText] = {};
};
Known& Knowledge() {
  static Known known;
  return known;
}

void Copy(std::string_view text, char (&to)[kMaxText]) {
  const size_t size = std::min(text.size(), kMaxText - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

/// Collects the parts of a line. One call then writes the whole line, so that other processes' lines cannot split it.
struct Line {
  char text[3 * kMaxText];
  size_t size = 0;

  void Add(const char* part) {
    const size_t length = std::min(std::strlen(part), sizeof(text) - size);
    std::memcpy(text + size, part, length);
    size += length;
  }
};

void OnBusError(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  Known& known = Knowledge();
  for (const Mapping& mapping : known.mappings) {
    if (info->si_code != BUS_ADRERR) break;  // another process sent the signal, or memory hardware failed
    const std::byte* begin = mapping.begin.load(std::memory_order_acquire);
    if (begin == nullptr || at < begin || at >= begin + mapping.size) continue;
    Line line;
    line.Add(known.who);
    line.Add(": ");
    line.Add(mapping.path);
    line.Add(
        ": the file was cut short while it was in use, or its disk fails: replace the files of a model by new ones");
    line.Add(" of the same name (mv), never in place\n");
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.text, line.size);
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);  // the instruction runs again and raises the signal once more
}

}  // namespace

void ReportMappingErrors(const std::string& who) {
  Copy(who, Knowledge().who);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void NoteMapping(const std::byte* begin, size_t size, const std::string& path) {
  for (Mapping& mapping : Knowledge().mappings) {
    if (mapping.taken.exchange(true)) continue;
    mapping.size = size;
    Copy(path, mapping.path);
    mapping.begin.store(begin, std::memory_order_release);
    return;
  }
}

void ForgetMapping(const std::byte* begin) {
  for (Mapping& mapping : Knowledge().mappings) {
    if (mapping.begin.load(std::memory_order_acquire) != begin) continue;
    mapping.begin.store(nullptr, std::memory_order_release);
    mapping.taken.store(false);
    return;
  }
}

}  // namespace quire
