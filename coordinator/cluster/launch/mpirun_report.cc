#include "coordinator/cluster/launch/mpirun_report.h"

#include <fmt/format.h>

#include <charconv>

namespace quire {

namespace {

/// Returns the integer after `before` in the line; nullopt when there is none.
std::optional<int> NumberAfter(const std::string& line, const std::string& before) {
  const size_t at = line.find(before);
  if (at == std::string::npos) return std::nullopt;
  const char* begin = line.data() + at + before.size();
  const char* end = line.data() + line.size();
  while (begin != end && *begin == ' ') ++begin;
  int value = 0;
  return std::from_chars(begin, end, value).ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// Returns the word after `before`, without a trailing full stop; "" when the line does not have `before`.
std::string WordAfter(const std::string& line, const std::string& before) {
  const size_t at = line.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  std::string word = line.substr(begin, line.find(' ', begin) - begin);
  if (word.ends_with('.')) word.pop_back();
  return word;
}

}  // namespace

// Open MPI 4.1 prints one of:
//   mpirun noticed that process rank 1 with PID 4711 on node b exited on signal 9 (Killed).
//   Process name: [[45,1],1]  and on the next line  Exit code:    3
//   ORTE has lost communication with a remote daemon.  ...  Remote daemon: [[45,0],1] on node b
//   A daemon (pid 4711) died unexpectedly on signal 9 ...   (no host is named)
void MpirunReport::AddLine(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (culprit_) return;
  if (const auto rank = NumberAfter(line, "mpirun noticed that process rank ")) {
    const auto signal = NumberAfter(line, "exited on signal ");
    culprit_ = {*rank, WordAfter(line, " on node "), fmt::format("was killed by signal {}", signal.value_or(0))};
  } else if (line.find("Process name: [[") != std::string::npos) {
    exited_ = NumberAfter(line, "],").value_or(-1);
  } else if (const auto status = NumberAfter(line, "Exit code:"); status && exited_ >= 0) {
    culprit_ = {exited_, "", fmt::format("exited with status {}", *status)};
  } else if (line.find("lost communication with a remote daemon") != std::string::npos) {
    lost_daemon_ = true;
  } else if (lost_daemon_ && line.find("Remote daemon:") != std::string::npos) {
    culprit_ = {-1, WordAfter(line, " on node "), "lost its connection"};
  }
}

std::optional<MpirunReport::Culprit> MpirunReport::culprit() const {
  const std::lock_guard lock(mutex_);
  return culprit_;
}

}  // namespace quire
