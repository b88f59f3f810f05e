#include "worker/serve/worker_log.h"

#include <fmt/format.h>

#include <atomic>

#include "comm/base/log_line.h"
#include "comm/base/printable.h"

namespace quire {

namespace {

std::atomic<LogFormat>& FormatOfWorker() {
  static std::atomic<LogFormat> format{LogFormat::kText};
  return format;
}

}  // namespace

void SetWorkerLog(LogFormat format) { FormatOfWorker() = format; }

void WorkerLog(LogLevel level, Rank rank, std::string_view text, std::string_view host) {
  if (FormatOfWorker() == LogFormat::kJson) {
    LogFields fields = {{"program", "quire-worker"}};
    if (rank >= 0) fields.emplace_back("rank", rank);
    if (!host.empty()) fields.emplace_back("host", host);
    fmt::print(stderr, "{}\n", JsonLogLine(std::chrono::system_clock::now(), level, text, fields));
    return;
  }
  const std::string of_rank = rank >= 0 ? fmt::format(" rank {}", rank) : "";
  const std::string on_host = host.empty() ? "" : fmt::format(" on {}", host);
  const std::string who = of_rank + on_host;
  fmt::print(stderr, "quire-worker:{}{} {}\n", who, who.empty() ? "" : ":", WithoutControls(text));
}

}  // namespace quire
