#include "coordinator/cli/cache_command.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/kv_folder.h"

namespace quire {

namespace {

using Entries = std::vector<KvFolder::Entry>;

double GibibytesOf(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// Returns the two lines of a space's description: the model's path, and the text that is part of the key of its
/// blocks.
std::pair<std::string, std::string> AboutOf(const KvFolder& folder, const std::string& space) {
  const std::string about = folder.DescriptionOf(space);
  const size_t end = about.find('\n');
  if (end == std::string::npos || !about.ends_with('\n')) return {about, ""};
  return {about.substr(0, end), about.substr(end + 1, about.size() - end - 2)};
}

int List(const KvFolder& folder, const Entries& entries) {
  struct Sum {
    int64_t files = 0, bytes = 0;
    double used = 0;
  };
  std::map<std::string, Sum> sums;
  for (const KvFolder::Entry& entry : entries) {
    Sum& sum = sums[entry.folder];
    ++sum.files;
    sum.bytes += entry.bytes;
    sum.used = std::max(sum.used, entry.used_seconds);
  }
  const auto now = static_cast<double>(std::time(nullptr));
  for (const auto& [space, sum] : sums) {
    const auto [model, text] = AboutOf(folder, space);
    fmt::print("{}  {} blocks, {:.3f} GiB, last used {:.1f} h ago: {}\n  {}\n", space, sum.files,
               GibibytesOf(sum.bytes), std::max(0.0, now - sum.used) / 3600, WithoutControls(model),
               WithoutControls(text));
  }
  if (sums.empty()) fmt::print("{}: no blocks\n", folder.path());
  return 0;
}

int Verify(const KvFolder& folder, const Entries& entries) {
  std::map<std::string, std::unique_ptr<BlockSeal>> seals;
  int64_t right = 0, wrong = 0;
  for (const KvFolder::Entry& entry : entries) {
    std::unique_ptr<BlockSeal>& seal = seals[entry.folder];
    if (seal == nullptr) seal = std::make_unique<BlockSeal>(folder.secret(), AboutOf(folder, entry.folder).second);
    const bool may_be_right = entry.bytes <= KvFolder::kMostBlockBytes;
    const auto content = may_be_right ? folder.Peek(entry.folder, entry.name) : std::vector<std::byte>();
    if (!content) continue;  // a server has just removed it
    const bool is_right = seal->folder() == entry.folder && seal->Verify(entry.name, *content);
    ++(is_right ? right : wrong);
    if (!is_right)
      fmt::print("{}/{}/{}: not right; servers will not use it\n", folder.path(), entry.folder, entry.name);
  }
  fmt::print("{} blocks are right, {} are not\n", right, wrong);
  return wrong == 0 ? 0 : 1;
}

int Prune(KvFolder& folder, Entries entries, const CacheCommand& command) {
  std::ranges::sort(entries, {}, &KvFolder::Entry::used_seconds);
  const double oldest = static_cast<double>(std::time(nullptr)) - 86400.0 * command.days.value_or(0);
  int64_t left = 0, removed = 0, removed_bytes = 0;
  for (const KvFolder::Entry& entry : entries) left += entry.bytes;
  for (const KvFolder::Entry& entry : entries) {
    const bool is_old = command.days && entry.used_seconds < oldest;
    const bool is_much = command.gibibytes && GibibytesOf(left) > *command.gibibytes;
    if (!is_old && !is_much) continue;
    folder.Remove(entry.folder, entry.name);
    left -= entry.bytes;
    removed_bytes += entry.bytes;
    ++removed;
  }
  fmt::print("{} blocks removed, {:.3f} GiB; {} are left, {:.3f} GiB\n", removed, GibibytesOf(removed_bytes),
             std::ssize(entries) - removed, GibibytesOf(left));
  return 0;
}

}  // namespace

void CheckCache(const CacheCommand& command) {
  const bool prunes = command.action == "prune";
  if (!prunes && command.action != "ls" && command.action != "verify")
    Fail("quire cache {}: give ls, verify or prune", WithoutControls(command.action));
  const bool says = command.gibibytes || command.days;
  if (prunes && !says) Fail("quire cache prune: give --size GIB, --days N or both; --size 0 removes every block");
  if (!prunes && says) Fail("--size and --days are of quire cache prune");
}

int RunCache(const CacheCommand& command) {
  KvFolder folder(command.directory, KvFolder::kMustExist);
  Entries entries = folder.List();
  if (command.action == "ls") return List(folder, entries);
  if (command.action == "verify") return Verify(folder, entries);
  return Prune(folder, std::move(entries), command);
}

}  // namespace quire
