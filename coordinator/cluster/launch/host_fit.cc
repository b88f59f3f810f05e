#include "coordinator/cluster/launch/host_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>

#include "comm/base/host_limits.h"
#include "comm/topology/request_memory.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

std::string InWords(int64_t bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const auto size = static_cast<double>(bytes);
  return size < kGiB ? fmt::format("{:.1f} MiB", size / kMiB) : fmt::format("{:.1f} GiB", size / kGiB);
}

/// The resources that the ranks of all replicas need on one host, and the resources that the host has. Memory is in
/// bytes.
struct HostLoad {
  double weights = 0, kv = 0, swap = 0;  // double: products of large settings may exceed 64 bits
  double working = 0, of_steps = 0;      // WorkingMemory: all of it; the part that steps take
  int workers = 0;
  int64_t total = INT64_MAX, available = INT64_MAX;
  int processors = 0;  // 0: unknown
  std::string limited_by;

  double sum() const { return weights + kv + swap + working; }
};

/// Returns the bytes of KV cache that the topology demands for the rank; 0 when the size is chosen to fit.
double KvAskedFor(const Topology::Cache& cache, const RankInfo& rank) {
  if (cache.num_blocks > 0) return (cache.num_blocks + 1.0) * static_cast<double>(rank.bytes_per_block);
  return static_cast<double>(cache.memory_bytes);
}

std::map<std::string, HostLoad> LoadsOfHosts(const Topology& topology, BackendKind backend,
                                             const std::vector<RankInfo>& ranks) {
  std::map<std::string, HostLoad> loads;
  const bool cuda = backend == BackendKind::kCuda;
  for (const RankInfo& rank : ranks) {
    HostLoad& load = loads[rank.host];
    ++load.workers;
    load.swap += static_cast<double>(topology.cache.host_swap_bytes);
    if (!cuda) {
      load.weights += static_cast<double>(rank.weight_bytes);
      load.kv += KvAskedFor(topology.cache, rank);
      load.working += static_cast<double>(rank.working.total());
      load.of_steps += static_cast<double>(rank.working.of_steps());
      load.available = std::min(load.available, std::max<int64_t>(0, rank.available_bytes));
    }
    if (rank.memory_bytes > 0 && rank.memory_bytes < load.total) {
      load.total = rank.memory_bytes;
      load.limited_by = rank.memory_limit;
    }
    if (rank.processors > 0)
      load.processors = load.processors == 0 ? rank.processors : std::min(load.processors, rank.processors);
  }
  for (const auto& [host, workers] : RanksOfAllReplicas(topology, ranks)) {
    HostLoad& load = loads[host];
    const double times = static_cast<double>(workers) / load.workers;
    load.weights *= times, load.kv *= times, load.swap *= times, load.working *= times, load.of_steps *= times;
    load.workers = workers;
  }
  return loads;
}

std::string WorkersOn(const std::string& host, int workers) {
  return fmt::format("{} worker{} on {}", workers, workers == 1 ? "" : "s", host);
}

/// Returns the names of the flags that set the memory in `load`: for the KV cache, for the swap space, or both; "" if
/// `load` has neither.
std::string Flags(const Topology::Cache& cache, const HostLoad& load) {
  std::vector<std::string> flags;
  if (load.kv > 0) flags.emplace_back(cache.num_blocks > 0 ? "--num-kv-blocks" : "--kv-cache-memory-bytes");
  if (load.swap > 0) flags.emplace_back("--swap-space");
  return flags.empty() ? "" : flags.size() == 1 ? flags[0] : flags[0] + " and " + flags[1];
}

std::string Parts(const HostLoad& load) {
  std::string parts;
  const auto add = [&](double bytes, const char* what) {
    if (bytes > 0)
      parts += fmt::format("{}{} of {}", parts.empty() ? "" : " + ",
                           InWords(static_cast<int64_t>(std::min(bytes, 9e18))), what);
  };
  add(load.weights, "weights");
  add(load.kv, "KV cache");
  add(load.swap, "swap space");
  add(load.working, "processes and their steps");
  return parts;
}

/// Returns the problem of a rank whose KV cache exceeds the free memory of its GPU, as the rank reported it; empty when
/// there is none.
std::string GpuProblem(const Topology& topology, const std::vector<RankInfo>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const double kv = KvAskedFor(topology.cache, ranks[r]);
    if (kv > 0 && kv > static_cast<double>(ranks[r].available_bytes))
      return fmt::format("rank {} on {}: {} of KV cache, and its GPU has {} free once the weights are loaded; lower {}",
                         r, ranks[r].host, InWords(static_cast<int64_t>(std::min(kv, 9e18))),
                         InWords(ranks[r].available_bytes),
                         topology.cache.num_blocks > 0 ? "--num-kv-blocks" : "--kv-cache-memory-bytes");
  }
  return "";
}

/// Adds a warning if the file system of `directory` has no room for `bytes`, the most bytes that the files in the
/// directory may take. The room is the free space plus the present size of the files. `flag`: the setting to name.
void AddDiskWarning(std::vector<std::string>& warnings, const std::string& directory, int64_t bytes, const char* flag) {
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(directory, error);
  while (there.has_relative_path() && !std::filesystem::exists(there, error)) there = there.parent_path();
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  if (error) return;
  uintmax_t own = 0;
  for (std::filesystem::recursive_directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error))
    own += file->is_regular_file(error) ? file->file_size(error) : 0;
  const auto room = static_cast<int64_t>(std::min<uintmax_t>(space.available + own, INT64_MAX));
  if (bytes > room)
    warnings.push_back(fmt::format("{} may take {} ({}), and its file system has room for {}; lower it", directory,
                                   InWords(bytes), flag, InWords(room)));
}

}  // namespace

std::string MemoryProblem(const Topology& topology, BackendKind backend, const std::vector<RankInfo>& ranks) {
  for (const auto& [host, load] : LoadsOfHosts(topology, backend, ranks)) {
    if (topology.models_memory_bytes > load.total)
      return fmt::format("models_memory lets all models take {}, and {} allows {} in all; lower --models-memory",
                         InWords(topology.models_memory_bytes), load.limited_by, InWords(load.total));
    if (load.sum() <= static_cast<double>(load.total)) continue;
    const std::string flags = Flags(topology.cache, load);
    return fmt::format("{} would take {}, and {} allows {} in all; {}", WorkersOn(host, load.workers), Parts(load),
                       load.limited_by, InWords(load.total),
                       flags.empty() ? "give them more hosts or more memory, or weights of fewer bits (--quantization)"
                                     : "lower " + flags);
  }
  return backend == BackendKind::kCuda ? GpuProblem(topology, ranks) : "";
}

std::vector<std::string> HostWarnings(const Topology& topology, BackendKind backend,
                                      const std::vector<RankInfo>& ranks) {
  std::vector<std::string> warnings;
  for (const auto& [host, load] : LoadsOfHosts(topology, backend, ranks)) {
    const double asked = load.kv + load.swap, to_come = asked + load.of_steps;
    const bool possible = load.sum() <= static_cast<double>(load.total);  // false: MemoryProblem explains more
    if (possible && asked > 0 && to_come > static_cast<double>(load.available)) {
      warnings.push_back(fmt::format(
          "{} may take {}, and {} are free there now: once requests fill it, the kernel may kill a worker; free "
          "memory, or lower {}",
          WorkersOn(host, load.workers), InWords(static_cast<int64_t>(to_come)), InWords(load.available),
          Flags(topology.cache, load)));
    }
    const int threads = topology.threads_per_worker * load.workers;
    if (backend == BackendKind::kCpu && load.processors > 0 && threads > load.processors) {
      warnings.push_back(
          fmt::format("{} compute with {} threads, and may use {} processors there: they wait for each other; lower "
                      "--threads-per-worker",
                      WorkersOn(host, load.workers), threads, load.processors));
    }
  }
  const MemoryRoom here = ReadMemoryRoom();
  const auto hold_against_memory = [&](int64_t bytes, const char* who, const char* key) {
    if (bytes > here.total)
      warnings.push_back(fmt::format("{} may hold {} ({}), and {} allows {} in all; lower it", who, InWords(bytes), key,
                                     here.limited_by, InWords(here.total)));
  };
  hold_against_memory(MemoryOfRequests(topology.limits, here.total), "requests", "server.limits.memory_bytes");
  if (!topology.lora.dirs.empty())
    hold_against_memory(topology.lora.memory_bytes, "adapters", "lora.memory, --lora-memory");
  AddDiskWarning(warnings, topology.cache.disk.dir, topology.cache.disk.max_bytes, "--kv-disk-size");
  AddDiskWarning(warnings, topology.batches.dir, topology.batches.max_bytes, "--batch-max-bytes");
  return warnings;
}

std::string ModelsMemoryWarning(const Topology& topology, int64_t free_bytes) {
  if (topology.models_memory_bytes <= free_bytes) return "";
  return fmt::format(
      "models_memory lets all models take {}, and {} are free now: once requests fill it, the kernel may kill a "
      "worker; free memory, or lower --models-memory",
      InWords(topology.models_memory_bytes), InWords(free_bytes));
}

}  // namespace quire
