#include "coordinator/kv_disk/kv_import.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/printable.h"
#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/kv_export.h"
#include "coordinator/kv_disk/kv_file_list.h"

namespace quire {

namespace {

constexpr size_t kMostDescription = 65536, kMostModelPath = 4096, kMostBlockSize = 256;

/// One pass over an archive's records. The first pass (kCheck) checks and counts the records, and the second (kWrite)
/// also writes the blocks.
class ImportPass {
 public:
  enum Mode { kCheck, kWrite };
  ImportPass(KvFolder& folder, const std::string& model, Mode mode);

  void Take(ArchiveRecord record);
  const KvImportCounts& counts() const { return counts_; }
  bool any_space() const { return any_space_; }

 private:
  void TakeSpace(const ArchiveRecord& record);
  void TakeRoot(const ArchiveRecord& record);
  void TakeBlock(ArchiveRecord record);
  void TakeState(ArchiveRecord record);
  void Keep(StoredBlock block);
  template <class... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> why, Args&&... args) const {
    Fail("record {}: {}", number_, fmt::format(why, std::forward<Args>(args)...));
  }

  KvFolder& folder_;
  const std::string model_;
  const Mode mode_;
  KvImportCounts counts_;
  int64_t number_ = 0;
  bool any_space_ = false, passes_ = false;              // passes_: the records of the present space are skipped
  std::set<std::pair<std::string, std::string>> files_;  // (folder, name) of every file that exists or was added
  // The members below describe the space to which the next records belong.
  std::string description_;
  std::optional<BlockSeal> seal_;
  std::optional<PrefixCache> chains_;
  size_t block_size_ = 0, block_bytes_ = 0, state_bytes_ = 0;
  bool is_made_ = false;           // the space's folder has been made
  std::vector<StoredName> nodes_;  // roots and blocks; a root has no tokens
};

ImportPass::ImportPass(KvFolder& folder, const std::string& model, Mode mode)
    : folder_(folder), model_(model), mode_(mode) {
  for (KvFolder::Entry& entry : folder.List()) files_.emplace(std::move(entry.folder), std::move(entry.name));
}

void ImportPass::Take(ArchiveRecord record) {
  ++number_;
  if (number_ > KvFileList::kMostFiles) Refuse("a directory has at most {} files of blocks", KvFileList::kMostFiles);
  if (record.kind == ArchiveRecord::Kind::kSpace) return TakeSpace(record);
  if (description_.empty()) Refuse("comes before the description of its model");
  if (passes_) return;
  if (record.kind == ArchiveRecord::Kind::kRoot) return TakeRoot(record);
  if (record.after >= nodes_.size()) Refuse("follows a block that does not stand before it");
  if (record.data.empty() || record.data.size() > KvFolder::kMostBlockBytes / 2)
    Refuse("has {} bytes", record.data.size());
  record.kind == ArchiveRecord::Kind::kBlock ? TakeBlock(std::move(record)) : TakeState(std::move(record));
}

void ImportPass::TakeSpace(const ArchiveRecord& record) {
  if (record.data.size() > kMostDescription) Refuse("describes its model in {} bytes", record.data.size());
  description_.assign(reinterpret_cast<const char*>(record.data.data()), record.data.size());
  const SpaceDescription about = SpaceDescription::Of(description_);
  const Json json = Json::parse(about.space, nullptr, false);
  const bool is_text = !about.model.empty() && about.model.size() <= kMostModelPath &&
                       description_ == about.model + "\n" + about.space + "\n" &&
                       WithoutControls(about.model) == about.model && WithoutControls(about.space) == about.space;
  if (!is_text || !json.is_object() || !json.contains("block_size") || !json["block_size"].is_number_unsigned())
    Refuse("describes no model");
  const auto size = json["block_size"].get<uint64_t>();
  if (size < 1 || size > kMostBlockSize) Refuse("has blocks of {} tokens", size);
  passes_ = !about.IsOf(model_);
  any_space_ |= !passes_;
  seal_.emplace(folder_.secret(), about.space);
  chains_.emplace(1, static_cast<int>(size), seal_->chain_key());
  block_size_ = size;
  block_bytes_ = state_bytes_ = 0;
  is_made_ = false;
  nodes_.clear();
}

void ImportPass::TakeRoot(const ArchiveRecord& record) {
  PrefixOrigin origin;
  if (record.data.size() != origin.size()) Refuse("is no beginning of prompts");
  std::memcpy(origin.data(), record.data.data(), origin.size());
  nodes_.push_back({.hash = RootOf(origin, seal_->chain_key()), .origin = origin});
}

void ImportPass::TakeBlock(ArchiveRecord record) {
  if (record.tokens.size() != block_size_ || std::ranges::min(record.tokens) < 0)
    Refuse("is no block of {} tokens", block_size_);
  if (block_bytes_ == 0) block_bytes_ = record.data.size();
  if (record.data.size() != block_bytes_) Refuse("has another size than the blocks before it");
  const StoredName& before = nodes_[record.after];
  StoredName name{.hash = chains_->Chain(before.hash, record.tokens),
                  .parent = before.hash,
                  .tokens = std::move(record.tokens),
                  .origin = before.tokens.empty() ? before.origin : PrefixOrigin{}};
  nodes_.push_back(name);
  Keep({std::move(name), std::move(record.data)});
}

void ImportPass::TakeState(ArchiveRecord record) {
  StoredName name = nodes_[record.after];
  if (name.tokens.empty() || !record.tokens.empty()) Refuse("is no state after a block");
  if (state_bytes_ == 0) state_bytes_ = record.data.size();
  if (record.data.size() != state_bytes_) Refuse("has another size than the states before it");
  name.kind = StoredKind::kState;
  Keep({std::move(name), std::move(record.data)});
}

void ImportPass::Keep(StoredBlock block) {
  const std::string name = seal_->FileNameOf(block.name.hash, block.name.kind);
  if (!files_.emplace(seal_->folder(), name).second) {
    ++counts_.known;
    return;
  }
  ++(block.name.kind == StoredKind::kState ? counts_.states : counts_.blocks);
  counts_.bytes += static_cast<int64_t>(BlockSeal::FileBytes(block.name.tokens.size(), block.data.size()));
  if (mode_ == kCheck) return;
  if (!std::exchange(is_made_, true)) folder_.AddSpace(seal_->folder(), description_);
  folder_.Write(seal_->folder(), name, seal_->Seal(block));
}

}  // namespace

KvImportCounts ImportBlocks(KvFolder& folder, KvArchiveReader& archive, const std::string& model, int64_t max_bytes) {
  int64_t bytes = 0, files = 0;
  for (const KvFolder::Entry& entry : folder.List()) {
    bytes += entry.bytes;
    ++files;
  }
  ImportPass check(folder, model, ImportPass::kCheck);
  archive.ReadAll([&](ArchiveRecord record) { check.Take(std::move(record)); });
  const KvImportCounts& counts = check.counts();
  if (!check.any_space()) Fail("the archive has no blocks of {}", model.empty() ? "any model" : WithoutControls(model));
  if (bytes + counts.bytes > max_bytes)
    Fail("{}: {} bytes of blocks are there, the archive adds {}, and --size allows {}", folder.path(), bytes,
         counts.bytes, max_bytes);
  if (files + counts.blocks + counts.states > KvFileList::kMostFiles)
    Fail("{}: a directory has at most {} files of blocks; {} are there, and the archive adds {}", folder.path(),
         KvFileList::kMostFiles, files, counts.blocks + counts.states);
  ImportPass write(folder, model, ImportPass::kWrite);
  archive.ReadAll([&](ArchiveRecord record) { write.Take(std::move(record)); });
  return write.counts();
}

}  // namespace quire
