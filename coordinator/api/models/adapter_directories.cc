#include "coordinator/api/models/adapter_directories.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/model/adapter_files.h"

namespace quire {

namespace {

namespace fs = std::filesystem;

/// True when `path` is `directory` or lies in it. Both paths must be without symbolic links.
bool IsWithin(const fs::path& path, const fs::path& directory) {
  const auto ends = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return ends.first == directory.end();
}

}  // namespace

void CheckAdapterRank(int64_t rank, int most, const std::string& path) {
  if (most > 0 && rank > most) Fail("{}: its rank is {}, and lora.max_rank (--max-lora-rank) is {}", path, rank, most);
}

AdapterDirectories::AdapterDirectories(const Topology::Lora& lora) : lora_(lora) {
  for (const std::string& dir : lora.dirs) {
    std::error_code error;
    dirs_.push_back(fs::canonical(dir, error));
    if (error || !fs::is_directory(dirs_.back(), error)) Fail("lora.dirs (--lora-dir): {} is no directory", dir);
  }
}

FoundAdapter AdapterDirectories::Open(const std::string& path, const ModelFiles& base) const {
  if (dirs_.empty()) Fail("no directory is named from which adapters may be loaded (--lora-dir, lora.dirs)");
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const bool allowed = !error && std::ranges::any_of(dirs_, [&](const fs::path& dir) { return IsWithin(real, dir); });
  // A path outside of the directories is refused in the same way whether it exists or not, so clients cannot probe for
  // files.
  if (!allowed)
    Fail("{}: no directory within {} (--lora-dir), links followed", path.substr(0, 1000), fmt::join(lora_.dirs, ", "));
  const AdapterFiles adapter = AdapterFiles::Open(real.string(), base, static_cast<size_t>(lora_.memory_bytes));
  CheckAdapterRank(adapter.rank(), lora_.max_rank, path);
  return {real.string(), adapter.fingerprint(), adapter.rank(), adapter.bytes(), adapter.file_bytes()};
}

}  // namespace quire
