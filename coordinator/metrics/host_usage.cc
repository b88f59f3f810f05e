#include "coordinator/metrics/host_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace quire {

namespace {

/// Reads the first line of /proc/stat: ticks of user, nice, system, idle, iowait, irq, softirq, steal.
void ReadProcessors(HostUsage& usage) {
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  double value = 0;
  for (int field = 0; field < 8 && stat >> value; ++field) {
    const bool idle = field == 3 || field == 4;
    usage.host_seconds += value / ticks;
    if (!idle) usage.host_busy_seconds += value / ticks;
  }
}

void ReadMemory(HostUsage& usage) {
  std::ifstream info("/proc/meminfo");
  std::string name;
  double kib = 0, available = 0;
  while (info >> name >> kib) {
    if (name == "MemTotal:") usage.host_bytes = kib * 1024;
    if (name == "MemAvailable:") available = kib * 1024;
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  usage.host_used_bytes = usage.host_bytes - available;
}

}  // namespace

double UsedProcessorSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

HostUsage ReadHostUsage() {
  HostUsage usage;
  usage.process_seconds = UsedProcessorSeconds();
  double virtual_pages = 0, resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages)
    usage.resident_bytes = resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  ReadProcessors(usage);
  ReadMemory(usage);
  return usage;
}

}  // namespace quire
