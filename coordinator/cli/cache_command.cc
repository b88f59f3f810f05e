#include "coordinator/cli/cache_command.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "comm/base/secret_file.h"
#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/kv_export.h"
#include "coordinator/kv_disk/kv_folder.h"
#include "coordinator/kv_disk/kv_import.h"

namespace quire {

namespace {

constexpr double kDefaultGibibytes = 16;  // the default of --kv-disk-size

using Entries = std::vector<KvFolder::Entry>;

double GibibytesOf(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

SpaceDescription AboutOf(const KvFolder& folder, const std::string& space) {
  return SpaceDescription::Of(folder.DescriptionOf(space));
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
    if (seal == nullptr) seal = std::make_unique<BlockSeal>(folder.secret(), AboutOf(folder, entry.folder).space);
    const bool may_be_right = entry.bytes <= KvFolder::kMostBlockBytes;
    const auto content = may_be_right ? folder.Peek(entry.folder, entry.name) : std::vector<std::byte>();
    if (!content) continue;  // a server has just removed the file
    const bool is_right = seal->folder() == entry.folder && seal->Unseal(entry.name, *content);
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

/// Returns the key with which the archive is sealed: from the passphrase file or the secret file, by default the
/// directory's own secret. Throws Error for a passphrase or secret of a wrong length.
ArchiveKey KeyOf(const CacheCommand& command, const KvFolder& folder) {
  constexpr size_t kLeastPassphrase = 12, kMostPassphrase = 4096;
  if (!command.passphrase_file.empty()) {
    const Secret secret = ReadGuardedFile(command.passphrase_file, FileAccess::kOwnerOnly, kMostPassphrase);
    std::string text(secret.view());
    if (text.ends_with('\n')) text.pop_back();
    if (text.size() < kLeastPassphrase)
      Fail("{}: a passphrase has at least {} bytes", command.passphrase_file, kLeastPassphrase);
    return {ArchiveKey::Kind::kPassphrase, text};
  }
  if (command.secret_file.empty()) return {ArchiveKey::Kind::kSecret, folder.secret()};
  const Secret secret = ReadGuardedFile(command.secret_file, FileAccess::kOwnerOnly, kMostPassphrase);
  if (secret.size() != BlockSeal::kSecretBytes)
    Fail("{}: a secret has {} bytes; take the file `secret` of the other directory", command.secret_file,
         BlockSeal::kSecretBytes);
  return {ArchiveKey::Kind::kSecret, std::string(secret.view())};
}

int Export(KvFolder& folder, const CacheCommand& command) {
  KvArchiveWriter archive(command.archive, KeyOf(command, folder));
  const KvExportCounts counts = ExportBlocks(folder, command.model, command.pin, archive);
  archive.Finish();
  fmt::print("{} blocks and {} states exported, {:.3f} GiB\n", counts.blocks, counts.states, GibibytesOf(counts.bytes));
  if (counts.damaged > 0) fmt::print("{} files are not right, and were left out\n", counts.damaged);
  if (counts.without_beginning > 0)
    fmt::print("{} files were left out, because the beginning of their prompts is not in the directory\n",
               counts.without_beginning);
  return 0;
}

int Import(KvFolder& folder, const CacheCommand& command) {
  KvArchiveReader archive(command.archive);
  const ArchiveKey key = KeyOf(command, folder);
  if (archive.key_kind() != key.kind)
    Fail("{}: {}", command.archive,
         key.kind == ArchiveKey::Kind::kSecret ? "was sealed with a passphrase: give --passphrase-file"
                                               : "was sealed for a directory's secret, not with a passphrase");
  archive.Unlock(key);
  const auto most = static_cast<int64_t>(command.gibibytes.value_or(kDefaultGibibytes) * (1 << 30));
  const KvImportCounts counts = ImportBlocks(folder, archive, command.model, most);
  fmt::print("{} blocks and {} states imported, {:.3f} GiB; {} were there already\n", counts.blocks, counts.states,
             GibibytesOf(counts.bytes), counts.known);
  return 0;
}

}  // namespace

void CheckCache(const CacheCommand& command) {
  const std::string& action = command.action;
  const bool prunes = action == "prune", exports = action == "export", imports = action == "import";
  if (prunes && !command.gibibytes && !command.days)
    Fail("quire cache prune: give --size GIB, --days N or both; --size 0 removes every block");
  if (!prunes && command.days) Fail("--days is of quire cache prune");
  if (!prunes && !imports && command.gibibytes) Fail("--size is of quire cache prune and import");
  if ((exports || imports) != !command.archive.empty())
    Fail("quire cache export and import take a directory and the archive's file; the others a directory alone");
  if (!exports && !imports && (!command.model.empty() || !command.passphrase_file.empty()))
    Fail("--model and --passphrase-file are of quire cache export and import");
  if (!exports && (command.pin || !command.secret_file.empty()))
    Fail("--pin and --secret-file are of quire cache export");
  if (exports && command.passphrase_file.empty() == command.secret_file.empty())
    Fail(
        "quire cache export: give --passphrase-file FILE, or --secret-file FILE with the secret of the directory that "
        "will import the archive");
}

int RunCache(const CacheCommand& command) {
  const bool imports = command.action == "import";
  KvFolder folder(command.directory, imports ? KvFolder::kMayBeMade : KvFolder::kMustExist);
  if (command.action == "export") return Export(folder, command);
  if (imports) return Import(folder, command);
  Entries entries = folder.List();
  if (command.action == "ls") return List(folder, entries);
  if (command.action == "verify") return Verify(folder, entries);
  return Prune(folder, std::move(entries), command);
}

}  // namespace quire
