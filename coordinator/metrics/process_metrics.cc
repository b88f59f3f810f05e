#include "coordinator/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "comm/wire/messages.h"
#include "coordinator/metrics/host_usage.h"
#include "coordinator/metrics/series.h"

namespace quire {

namespace {

double OpenFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++count;
  return count - 1;  // excludes the descriptor that reads the directory
}

}  // namespace

struct ProcessMetrics::All {
  explicit All(const Series& s)
      : resident(s.Gauge("process_resident_memory_bytes", "Resident memory of the coordinator")),
        virtual_memory(s.Gauge("process_virtual_memory_bytes", "Virtual memory of the coordinator")),
        processor(s.Counter("process_cpu_seconds_total", "Processor time of the coordinator")),
        open_files(s.Gauge("process_open_fds", "Its open files")),
        most_files(s.Gauge("process_max_fds", "Files that it may open")),
        start(s.Gauge("process_start_time_seconds", "When it began to serve, since 1970")) {}

  prometheus::Gauge &resident, &virtual_memory;
  prometheus::Counter& processor;
  prometheus::Gauge &open_files, &most_files, &start;
};

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry) : all_(std::make_unique<All>(Series(registry, {}))) {
  Series(registry, {{"version", kBuildVersion}, {"protocol", std::to_string(kProtocolVersion)}})
      .Gauge("quire:build_info", "1, with the version of the server and of its protocol as labels")
      .Set(1);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  all_->start.Set(now.count());
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) all_->most_files.Set(static_cast<double>(files.rlim_cur));
}

ProcessMetrics::~ProcessMetrics() = default;

void ProcessMetrics::Update() {
  const double page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  double virtual_pages = 0, resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages) {
    all_->virtual_memory.Set(virtual_pages * page);
    all_->resident.Set(resident_pages * page);
  }
  RaiseTo(all_->processor, UsedProcessorSeconds());
  all_->open_files.Set(OpenFiles());
}

}  // namespace quire
