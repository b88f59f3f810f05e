#include "coordinator/kv_disk/kv_export.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/kv_disk/block_seal.h"
#include "coordinator/kv_disk/stored_pins.h"

namespace quire {

namespace {

using HashKey = std::pair<uint64_t, uint64_t>;
HashKey KeyOf(const BlockHash& hash) { return {hash.low, hash.high}; }

/// The files of one space as a forest, in which every block follows its parent.
class SpaceExport {
 public:
  SpaceExport(KvFolder& folder, const SpaceDescription& about, KvExportCounts& counts, KvArchiveWriter& archive)
      : folder_(folder), about_(about), seal_(folder.secret(), about.space), counts_(counts), archive_(archive) {}

  const BlockSeal& seal() const { return seal_; }
  void Note(const KvFolder::Entry& entry);
  /// Chooses the blocks of this prompt, so that Write writes only these blocks.
  void Choose(const StoredPin& pin);
  /// Writes the blocks and states that follow from a known beginning of a chain, and counts the others.
  void Write();

 private:
  struct Node {
    std::string file;
    StoredName name;
  };
  std::optional<StoredBlock> Read(const std::string& file) const;
  bool Put(ArchiveRecord::Kind kind, uint32_t after, const std::string& file);
  void WriteTree(const BlockHash& root, uint32_t root_number);

  KvFolder& folder_;
  const SpaceDescription about_;
  const BlockSeal seal_;
  KvExportCounts& counts_;
  KvArchiveWriter& archive_;
  std::multimap<HashKey, Node> children_;  // blocks, by the hash of the block before, or of the root
  std::map<HashKey, std::string> states_;  // files of states, by the hash of the block before the state
  std::map<HashKey, std::pair<BlockHash, PrefixOrigin>> roots_;
  std::optional<std::set<HashKey>> chosen_;
  uint32_t numbers_ = 0;
};

std::optional<StoredBlock> SpaceExport::Read(const std::string& file) const {
  const auto content = folder_.Peek(seal_.folder(), file);
  return content ? seal_.Unseal(file, *content) : std::nullopt;
}

void SpaceExport::Note(const KvFolder::Entry& entry) {
  auto block = entry.bytes <= KvFolder::kMostBlockBytes ? Read(entry.name) : std::nullopt;
  if (!block || seal_.folder() != entry.folder) {
    ++counts_.damaged;
    return;
  }
  StoredName& name = block->name;
  if (name.kind == StoredKind::kState) {
    states_[KeyOf(name.hash)] = entry.name;
    return;
  }
  if (name.origin != PrefixOrigin{} && RootOf(name.origin, seal_.chain_key()) == name.parent)
    roots_[KeyOf(name.parent)] = {name.parent, name.origin};
  const HashKey parent = KeyOf(name.parent);
  children_.emplace(parent, Node{entry.name, std::move(name)});
}

void SpaceExport::Choose(const StoredPin& pin) {
  chosen_.emplace();
  const PrefixOrigin origin = OriginOf(pin.salt, 0);
  BlockHash hash = RootOf(origin, seal_.chain_key());
  if (!children_.contains(KeyOf(hash))) return;
  roots_[KeyOf(hash)] = {hash, origin};
  const auto size = children_.find(KeyOf(hash))->second.name.tokens.size();
  const PrefixCache chains(1, static_cast<int>(size), seal_.chain_key());
  for (auto tokens = std::span(pin.tokens); tokens.size() >= size && size > 0; tokens = tokens.subspan(size)) {
    hash = chains.Chain(hash, tokens.first(size));
    chosen_->insert(KeyOf(hash));
  }
}

/// Writes the file's content as a record that follows the root or block with the number `after`. Returns false when the
/// file has since been removed or damaged.
bool SpaceExport::Put(ArchiveRecord::Kind kind, uint32_t after, const std::string& file) {
  auto block = Read(file);
  if (!block) return false;
  counts_.bytes += static_cast<int64_t>(block->data.size());
  ++(kind == ArchiveRecord::Kind::kState ? counts_.states : counts_.blocks);
  if (kind == ArchiveRecord::Kind::kState) block->name.tokens.clear();
  archive_.Add({kind, after, std::move(block->name.tokens), std::move(block->data)});
  return true;
}

void SpaceExport::WriteTree(const BlockHash& root, uint32_t root_number) {
  std::vector<std::pair<HashKey, uint32_t>> open = {{KeyOf(root), root_number}};
  while (!open.empty()) {
    const auto [parent, after] = open.back();
    open.pop_back();
    const auto [begin, end] = children_.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      const auto& [file, name] = child->second;
      const HashKey key = KeyOf(name.hash);
      if ((chosen_ && !chosen_->contains(key)) || !Put(ArchiveRecord::Kind::kBlock, after, file)) continue;
      const uint32_t number = numbers_++;
      if (const auto state = states_.find(key); state != states_.end())
        Put(ArchiveRecord::Kind::kState, number, state->second);
      open.emplace_back(key, number);
    }
  }
}

void SpaceExport::Write() {
  const int64_t before = counts_.blocks + counts_.states;
  const std::string about = folder_.DescriptionOf(seal_.folder());
  const auto bytes = std::as_bytes(std::span(about));
  archive_.Add({ArchiveRecord::Kind::kSpace, 0, {}, {bytes.begin(), bytes.end()}});
  for (const auto& [key, root] : roots_) {
    const auto& [hash, origin] = root;
    if (chosen_ && origin == PrefixOrigin{}) continue;
    const auto digest = std::as_bytes(std::span(origin));
    archive_.Add({ArchiveRecord::Kind::kRoot, 0, {}, {digest.begin(), digest.end()}});
    const uint32_t number = numbers_++;
    WriteTree(hash, number);
  }
  const auto written = counts_.blocks + counts_.states - before;
  if (!chosen_) counts_.without_beginning += std::ssize(children_) + std::ssize(states_) - written;
}

}  // namespace

SpaceDescription SpaceDescription::Of(const std::string& description) {
  const size_t end = description.find('\n');
  if (end == std::string::npos || !description.ends_with('\n')) return {};
  const std::string space = description.substr(end + 1, std::max(description.size() - end, size_t{2}) - 2);
  return {description.substr(0, end), space};
}

bool SpaceDescription::IsOf(const std::string& wanted) const {
  return wanted.empty() || model == wanted || model.ends_with("/" + wanted);
}

KvExportCounts ExportBlocks(KvFolder& folder, const std::string& model, const std::optional<std::string>& pin,
                            KvArchiveWriter& archive) {
  std::map<std::string, std::vector<KvFolder::Entry>> spaces;
  for (KvFolder::Entry& entry : folder.List()) spaces[entry.folder].push_back(std::move(entry));
  KvExportCounts counts;
  bool any_model = false, any_pin = false;
  for (const auto& [name, entries] : spaces) {
    const SpaceDescription about = SpaceDescription::Of(folder.DescriptionOf(name));
    if (about.space.empty() || !about.IsOf(model)) continue;
    any_model = true;
    SpaceExport space(folder, about, counts, archive);
    std::vector<StoredPin> pins;
    if (pin) pins = StoredPins(folder, space.seal()).List(static_cast<double>(std::time(nullptr)));
    const auto chosen = std::ranges::find(pins, pin.value_or(""), &StoredPin::name);
    if (pin && chosen == pins.end()) continue;
    any_pin = true;
    for (const KvFolder::Entry& entry : entries) space.Note(entry);
    if (pin) space.Choose(*chosen);
    space.Write();
  }
  if (!any_model)
    Fail("{}: no blocks of {}; quire cache ls says what is there", folder.path(),
         model.empty() ? "any model" : WithoutControls(model));
  if (pin && !any_pin) Fail("{}: no pinned prompt is named {}", folder.path(), WithoutControls(*pin));
  return counts;
}

}  // namespace quire
