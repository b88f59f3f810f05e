#include "coordinator/kv_disk/kv_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "comm/base/error.h"
#include "coordinator/kv_disk/kv_export.h"
#include "coordinator/kv_disk/kv_import.h"
#include "coordinator/kv_disk/kv_store.h"
#include "coordinator/kv_disk/stored_pins.h"
#include "tests/support/error_of.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int kBlockSize = 4;
constexpr size_t kStoredBytes = 600, kStateBytes = 900;
constexpr int64_t kMuch = int64_t{1} << 30;
const std::string kSpace = R"({"block_size":4,"fingerprint":"f"})";

std::string AboutOf(const std::string& space) { return "/models/small\n" + space + "\n"; }

std::vector<TokenId> TokensOf(int count, int first) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

/// Returns bytes that differ for all blocks and states.
std::vector<std::byte> DataOf(std::span<const TokenId> tokens, const std::string& salt, bool is_state) {
  std::vector<std::byte> data(is_state ? kStateBytes : kStoredBytes);
  size_t seed = is_state + salt.size();
  for (const TokenId token : tokens) seed = seed * 31 + static_cast<size_t>(token);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(seed + i * (seed % 7));
  return data;
}

/// A directory of stored blocks.
class Directory {
 public:
  explicit Directory(fs::path path) : path_(std::move(path)) {}

  std::string path() const { return path_; }
  KvFolder Folder() const { return KvFolder(path_); }
  ArchiveKey Secret() const { return {ArchiveKey::Kind::kSecret, Folder().secret()}; }
  std::unique_ptr<KvStore> Open(const std::string& space = kSpace) const {
    return std::make_unique<KvStore>(KvStore::Options{
        .path = path_, .max_bytes = kMuch, .max_age_seconds = 3600, .space = space, .about = AboutOf(space)});
  }
  /// Returns the names of a prompt's full blocks. With `with_state`, the last name is that of the state after the last
  /// block.
  static std::vector<StoredName> NamesOf(const KvStore& store, const std::string& salt,
                                         const std::vector<TokenId>& prompt, bool with_state) {
    const PrefixCache chains(1, kBlockSize, store.chain_key());
    std::vector<StoredName> names;
    BlockHash hash = chains.Root(salt);
    for (auto rest = std::span(prompt); rest.size() >= kBlockSize; rest = rest.subspan(kBlockSize)) {
      const auto tokens = rest.first(kBlockSize);
      const BlockHash parent = std::exchange(hash, chains.Chain(hash, tokens));
      names.push_back({hash, parent, {tokens.begin(), tokens.end()}});
    }
    if (!with_state) return names;
    names.push_back(names.back());
    names.back().kind = StoredKind::kState;
    return names;
  }
  void Write(const std::string& salt, const std::vector<TokenId>& prompt, bool with_state = false,
             const std::string& space = kSpace) const {
    const auto store = Open(space);
    const PrefixCache chains(1, kBlockSize, store->chain_key());
    store->NoteOrigin(chains.Root(salt), OriginOf(salt, 0));
    const std::vector<StoredName> names = NamesOf(*store, salt, prompt, with_state);
    for (const StoredName& name : names)
      store->Write({name, DataOf(name.tokens, salt, name.kind == StoredKind::kState)});
    const auto count = std::ssize(names);
    for (int i = 0; i < 2000 && store->counts().stored < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(store->counts().stored, count);
  }
  /// Returns how many blocks of the prompt are found with the right bytes; the state counts as one block.
  int Found(const std::string& salt, const std::vector<TokenId>& prompt, bool with_state = false) const {
    const auto store = Open();
    int found = 0;
    for (const StoredName& name : NamesOf(*store, salt, prompt, with_state)) {
      const bool is_state = name.kind == StoredKind::kState;
      std::promise<KvStore::Found> answer;
      store->Read({name}, is_state ? kStateBytes : kStoredBytes,
                  [&](KvStore::Found f) { answer.set_value(std::move(f)); });
      const KvStore::Found data = answer.get_future().get();
      if (data.empty()) continue;
      EXPECT_EQ(data.front(), DataOf(name.tokens, salt, is_state));
      ++found;
    }
    return found;
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (IsBlockFile(entry.path().filename())) files.push_back(entry.path());
    }
    return files;
  }

 private:
  fs::path path_;
};

class KvArchiveTest : public testing::Test {
 protected:
  KvArchiveTest() {
    std::string name = fs::temp_directory_path() / "quire-archive-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    source_ = std::make_unique<Directory>(folder_ / "source");
    target_ = std::make_unique<Directory>(folder_ / "target");
    key_ = target_->Secret();
  }
  ~KvArchiveTest() override { fs::remove_all(folder_); }

  std::string archive() const { return folder_ / "archive"; }
  KvExportCounts Export(const std::string& model = "", const std::optional<std::string>& pin = std::nullopt) {
    fs::remove(archive());
    KvArchiveWriter writer(archive(), key_);
    KvFolder folder = source_->Folder();
    const KvExportCounts counts = ExportBlocks(folder, model, pin, writer);
    writer.Finish();
    return counts;
  }
  KvImportCounts Import(const std::string& model = "", int64_t max_bytes = kMuch) {
    KvFolder folder = target_->Folder();
    KvArchiveReader reader(archive());
    reader.Unlock(key_);
    return ImportBlocks(folder, reader, model, max_bytes);
  }
  /// Writes an archive of these records, and expects that the import refuses the archive and writes nothing.
  void ExpectRefused(const std::vector<ArchiveRecord>& records, const std::string& why) {
    fs::remove(archive());
    {
      KvArchiveWriter writer(archive(), key_);
      for (const ArchiveRecord& record : records) writer.Add(record);
      writer.Finish();
    }
    EXPECT_THAT([&] { Import(); }, ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_TRUE(target_->Files().empty());
  }

  fs::path folder_;
  std::unique_ptr<Directory> source_, target_;
  ArchiveKey key_;
};

std::vector<std::byte> BytesOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
ArchiveRecord SpaceRecord(const std::string& about = AboutOf(kSpace)) {
  return {ArchiveRecord::Kind::kSpace, 0, {}, BytesOf(about)};
}
ArchiveRecord RootRecord() { return {ArchiveRecord::Kind::kRoot, 0, {}, std::vector<std::byte>(32, std::byte{1})}; }
ArchiveRecord BlockRecord(uint32_t after, int first = 5) {
  return {ArchiveRecord::Kind::kBlock, after, TokensOf(kBlockSize, first), std::vector<std::byte>(kStoredBytes)};
}

TEST_F(KvArchiveTest, ImportedBlocksAndStates_AreFoundUnderTheOtherSecret_ForEachSalt) {
  std::vector<TokenId> prompt = TokensOf(40, 100), branch = prompt;
  branch.resize(24);
  branch.back() = 1;
  source_->Write("client a", prompt, true);
  source_->Write("client a", branch);
  source_->Write("other", prompt);
  const KvExportCounts exported = Export();
  EXPECT_EQ(exported.blocks, 10 + 1 + 10);
  EXPECT_EQ(exported.states, 1);
  EXPECT_EQ(exported.damaged + exported.without_beginning, 0);
  const KvImportCounts imported = Import();
  EXPECT_EQ(imported.blocks, exported.blocks);
  EXPECT_EQ(imported.states, 1);
  EXPECT_EQ(std::ssize(target_->Files()), imported.blocks + 1);
  EXPECT_EQ(target_->Found("client a", prompt, true), 11);
  EXPECT_EQ(target_->Found("client a", branch), 6);
  EXPECT_EQ(target_->Found("other", prompt), 10);
  EXPECT_EQ(target_->Found("third", prompt), 0);
  for (const fs::path& file : target_->Files()) {
    struct stat info;
    ASSERT_EQ(::stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_FALSE(fs::exists(fs::path(source_->path()) / fs::relative(file, target_->path())))
        << "names tell no content";
  }
  const KvImportCounts again = Import();
  EXPECT_EQ(again.blocks + again.states, 0);
  EXPECT_EQ(again.known, imported.blocks + 1);
}

TEST_F(KvArchiveTest, ImportedBlocks_AreExportedAgain) {
  const std::vector<TokenId> prompt = TokensOf(20, 100);
  source_->Write("salt", prompt);
  Export();
  Import();
  const Directory third(folder_ / "third");
  std::swap(*source_, *target_);
  *target_ = third;
  key_ = third.Secret();
  EXPECT_EQ(Export().blocks, 5);
  Import();
  EXPECT_EQ(third.Found("salt", prompt), 5);
}

TEST_F(KvArchiveTest, Archive_ShowsNoTokenSaltValueOrSecret) {
  const std::vector<TokenId> prompt = TokensOf(8, 70000);
  source_->Write("a salt that is long enough", prompt);
  Export();
  std::ifstream stream(archive(), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  struct stat info;
  ASSERT_EQ(::stat(archive().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::vector<std::byte> data = DataOf(std::span(prompt).first(4), "a salt that is long enough", false);
  for (const std::string& hidden :
       {std::string("a salt that"), std::string(reinterpret_cast<const char*>(prompt.data()), 8),
        std::string(reinterpret_cast<const char*>(data.data()), 16), source_->Folder().secret().substr(0, 8),
        key_.text.substr(0, 8), std::string("models")})
    EXPECT_EQ(content.find(hidden), std::string::npos);
}

TEST_F(KvArchiveTest, Passphrase_OpensOnlyTheArchiveThatItSealed) {
  source_->Write("", TokensOf(8, 100));
  key_ = {ArchiveKey::Kind::kPassphrase, "correct horse"};
  Export();
  key_.text = "correct horsf";
  EXPECT_THAT([&] { Import(); }, ThrowsMessage<Error>(HasSubstr("another key")));
  key_ = {ArchiveKey::Kind::kSecret, "correct horse"};
  EXPECT_THAT([&] { Import(); }, ThrowsMessage<Error>(HasSubstr("another key")));
  EXPECT_TRUE(target_->Files().empty());
  key_ = {ArchiveKey::Kind::kPassphrase, "correct horse"};
  EXPECT_EQ(Import().blocks, 2);
}

TEST_F(KvArchiveTest, Import_WritesNothing_WhateverByteIsFlippedCutOrAdded) {
  source_->Write("", TokensOf(12, 100), true);
  Export();
  std::ifstream stream(archive(), std::ios::binary);
  const std::string right((std::istreambuf_iterator<char>(stream)), {});
  const auto expect_refused = [&](const std::string& content) {
    std::ofstream(archive(), std::ios::binary | std::ios::trunc) << content;
    EXPECT_THROW(Import(), Error);
  };
  constexpr size_t kMagicBytes = 8;
  for (size_t at = 0; at < right.size(); at += 1 + at % 13) {
    std::string content = right;
    content[at] = static_cast<char>(content[at] ^ 64);
    if (at != kMagicBytes) expect_refused(content);  // the kind of key is excluded, because the caller compares it
    expect_refused(right.substr(0, at));
  }
  expect_refused(right + '\0');
  expect_refused(right + right);
  EXPECT_TRUE(target_->Files().empty());
  std::ofstream(archive(), std::ios::binary | std::ios::trunc) << right;
  EXPECT_EQ(Import().blocks, 3);
}

TEST_F(KvArchiveTest, Record_IsRefusedUnread_WhenItSaysThatItIsVeryLarge) {
  const auto problem = [&](size_t at, uint32_t bytes) {
    std::fstream file(archive(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file.close();
    fs::resize_file(archive(), uint64_t{3} << 30);  // a file with a hole, which takes no room on the disk
    return ErrorThrownBy([&] { Import(); });
  };
  constexpr size_t kFirst = 8 + 1 + 16 + 24;
  source_->Write("", TokensOf(8, 100));
  Export();
  uint32_t first = 0;
  std::ifstream file(archive(), std::ios::binary);
  file.seekg(kFirst);
  file.read(reinterpret_cast<char*>(&first), sizeof(first));
  EXPECT_THAT(problem(kFirst + sizeof(first) + first, (1u << 30) + 1),
              HasSubstr("archive: record 2 has 1073741825 bytes, at most 1073741824 are allowed"));
  EXPECT_THAT(problem(kFirst, (1u << 20) + 1),
              HasSubstr("archive: record 1 has 1048577 bytes, at most 1048576 are allowed"));
  EXPECT_TRUE(target_->Files().empty());
}

TEST_F(KvArchiveTest, Import_RefusesRecordsOfAWrongForm_AndWritesNothing) {
  const ArchiveRecord space = SpaceRecord(), root = RootRecord();
  ExpectRefused({BlockRecord(0)}, "comes before the description");
  ExpectRefused({}, "no blocks of any model");
  ExpectRefused({space, root, BlockRecord(0), BlockRecord(2)}, "does not stand before");
  ExpectRefused({space, root, BlockRecord(0), space, BlockRecord(0)}, "does not stand before");
  ArchiveRecord wrong = BlockRecord(0);
  wrong.tokens.pop_back();
  ExpectRefused({space, root, wrong}, "no block of 4 tokens");
  wrong = BlockRecord(0);
  wrong.tokens[2] = -1;
  ExpectRefused({space, root, wrong}, "no block of 4 tokens");
  wrong = BlockRecord(1);
  wrong.data.pop_back();
  ExpectRefused({space, root, BlockRecord(0), wrong}, "another size");
  wrong = BlockRecord(0);
  wrong.data.clear();
  ExpectRefused({space, root, wrong}, "has 0 bytes");
  ArchiveRecord state{ArchiveRecord::Kind::kState, 0, {}, std::vector<std::byte>(5)};
  ExpectRefused({space, root, state}, "no state after a block");
  ArchiveRecord larger{ArchiveRecord::Kind::kState, 1, {}, std::vector<std::byte>(6)};
  state.after = 1;
  ExpectRefused({space, root, BlockRecord(0), state, larger}, "another size");
  wrong = root;
  wrong.data.pop_back();
  ExpectRefused({space, wrong}, "no beginning of prompts");
}

TEST_F(KvArchiveTest, Import_RefusesDescriptionsOfNoModel) {
  for (const std::string& about :
       {std::string(), std::string("/models/small"), "/models/small\n" + kSpace, "\n" + kSpace + "\n", AboutOf("{}"),
        AboutOf(R"({"block_size":0})"), AboutOf(R"({"block_size":257})"), AboutOf(R"({"block_size":-4})"),
        AboutOf(R"({"block_size":"4"})"), AboutOf("[4]"), AboutOf(kSpace + "\n"), "a\x1b[2Jb\n" + kSpace + "\n",
        std::string(5000, 'm') + "\n" + kSpace + "\n"})
    ExpectRefused({SpaceRecord(about), RootRecord(), BlockRecord(0)}, "record 1: ");
  ExpectRefused({SpaceRecord(AboutOf(kSpace + std::string(70000, ' ')))}, "describes its model in");
  // A path in the description is not used as a file name, because folders are named by a digest.
  fs::remove(archive());
  {
    KvArchiveWriter writer(archive(), key_);
    for (const ArchiveRecord& record :
         {SpaceRecord("../../../outside\n" + kSpace + "\n"), RootRecord(), BlockRecord(0)})
      writer.Add(record);
    writer.Finish();
  }
  EXPECT_EQ(Import().blocks, 1);
  ASSERT_EQ(target_->Files().size(), 1u);
  EXPECT_EQ(target_->Files().front().parent_path().parent_path(), target_->path());
}

TEST_F(KvArchiveTest, Import_WritesNothing_WhenAllFilesWouldExceedTheSize) {
  source_->Write("", TokensOf(40, 100));
  Export();
  const auto bytes = static_cast<int64_t>(BlockSeal::FileBytes(kBlockSize, kStoredBytes));
  target_->Write("", TokensOf(8, 500));
  EXPECT_THAT([&] { Import("", 12 * bytes - 1); }, ThrowsMessage<Error>(HasSubstr("--size allows")));
  EXPECT_EQ(target_->Files().size(), 2u);
  EXPECT_EQ(Import("", 12 * bytes).blocks, 10);
}

TEST_F(KvArchiveTest, Models_AreChosenByTheirPath) {
  const std::string other = R"({"block_size":4,"fingerprint":"g"})";
  source_->Write("", TokensOf(8, 100));
  source_->Write("", TokensOf(12, 100), false, other);
  for (const std::string wrong : {"large", "mall", "/models"})
    EXPECT_THAT([&] { Export(wrong); }, ThrowsMessage<Error>(HasSubstr("no blocks of " + wrong)));
  EXPECT_FALSE(fs::exists(archive())) << "an archive that was not finished is removed";
  EXPECT_EQ(Export("small").blocks, 5) << "two spaces of one model";
  EXPECT_THAT([&] { Import("large"); }, ThrowsMessage<Error>(HasSubstr("no blocks of large")));
  EXPECT_TRUE(target_->Files().empty());
  EXPECT_EQ(Import("/models/small").blocks, 5);
  EXPECT_EQ(target_->Found("", TokensOf(12, 100)), 2) << "the space that another fingerprint has is another one";
}

TEST_F(KvArchiveTest, ExportOfAPin_HasOnlyTheBlocksOfItsPrompt) {
  const std::vector<TokenId> prompt = TokensOf(22, 100), longer = TokensOf(40, 100), other = TokensOf(40, 300);
  source_->Write("k", longer);
  source_->Write("k", other);
  source_->Write("", longer);
  KvFolder folder = source_->Folder();
  const BlockSeal seal(folder.secret(), kSpace);
  const double now = static_cast<double>(std::time(nullptr));
  StoredPins(folder, seal).Write({"agent", "k", prompt, now + 600});
  StoredPins(folder, seal).Write({"late", "k", prompt, now - 1});
  EXPECT_THAT([&] { Export("", "nobody"); }, ThrowsMessage<Error>(HasSubstr("no pinned prompt")));
  EXPECT_THAT([&] { Export("", "late"); }, ThrowsMessage<Error>(HasSubstr("no pinned prompt")));
  const KvExportCounts counts = Export("", "agent");
  EXPECT_EQ(counts.blocks, 5);
  EXPECT_EQ(counts.without_beginning, 0);
  Import();
  EXPECT_EQ(target_->Found("k", longer), 5);
  EXPECT_EQ(target_->Found("k", other) + target_->Found("", longer), 0);
}

TEST_F(KvArchiveTest, Export_LeavesOutDamagedFilesAndTheBlocksAfterThem) {
  const std::vector<TokenId> prompt = TokensOf(40, 100);
  source_->Write("", prompt);
  const std::string third = BlockSeal(source_->Folder().secret(), kSpace)
                                .FileNameOf(Directory::NamesOf(*source_->Open(), "", prompt, false)[2].hash);
  for (const fs::path& file : source_->Files()) {
    if (file.filename() == third) fs::resize_file(file, fs::file_size(file) - 1);
  }
  const KvExportCounts counts = Export();
  EXPECT_EQ(counts.blocks, 2);
  EXPECT_EQ(counts.damaged, 1);
  EXPECT_EQ(counts.without_beginning, 7);
  Import();
  EXPECT_EQ(target_->Found("", prompt), 2);
}

TEST_F(KvArchiveTest, Links_AreNotFollowed) {
  source_->Write("", TokensOf(8, 100));
  Export();
  const fs::path kept = folder_ / "kept", outside = folder_ / "outside";
  fs::rename(archive(), kept);
  fs::create_symlink(kept, archive());
  EXPECT_THROW(Import(), Error);
  EXPECT_THROW(KvArchiveWriter(archive(), key_), Error) << "an existing file is not replaced";
  fs::remove(archive());
  fs::rename(kept, archive());
  // Links have the names of the files that the import will write. The import replaces them, and their targets stay.
  std::ofstream(outside) << "mine";
  Import();
  for (const fs::path& file : target_->Files()) {
    fs::remove(file);
    fs::create_symlink(outside, file);
  }
  EXPECT_EQ(Import().blocks, 2);
  EXPECT_EQ(fs::file_size(outside), 4u);
  EXPECT_EQ(target_->Found("", TokensOf(8, 100)), 2);
  // A link has the name of a space's folder, which holds the blocks of one model and its settings.
  const fs::path space = target_->Files().front().parent_path();
  fs::remove_all(space);
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", space);
  EXPECT_THROW(Import(), Error);
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
}

TEST_F(KvArchiveTest, Pins_AreListedUntilTheyExpire_AndInvalidFilesAreRemoved) {
  const auto store = source_->Open();
  KvFolder folder = source_->Folder();
  const BlockSeal seal(folder.secret(), kSpace), other(folder.secret(), "another");
  StoredPins pins(folder, seal);
  const std::string salt("client\0\xff\xfe", 9);
  pins.Write({"b", salt, {1, 2, 3}, 100, 2});
  pins.Write({"a", "", {4}, 200});
  pins.Write({"a", "", {5}, 300});
  std::vector<StoredPin> listed = pins.List(99);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].tokens, std::vector<TokenId>{5}) << "the name's pin is replaced";
  EXPECT_EQ(listed[1].name, "b");
  EXPECT_EQ(listed[1].salt, salt);
  EXPECT_EQ(listed[1].tokens, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(listed[1].expires_seconds, 100);
  EXPECT_EQ(listed[1].replica, 2);
  EXPECT_EQ(pins.List(150).size(), 1u);
  EXPECT_EQ(pins.List(0).size(), 1u) << "the expired pin's file is gone";
  const fs::path space = fs::path(source_->path()) / seal.folder();
  for (const auto& entry : fs::directory_iterator(space)) {
    if (entry.path().extension() != ".pin") continue;
    fs::copy(entry.path(), space / (std::string(40, 'a') + ".pin"));
    fs::permissions(entry.path(), fs::perms(0600));
  }
  EXPECT_EQ(pins.List(0).size(), 1u) << "a copy under another name";
  EXPECT_FALSE(fs::exists(space / (std::string(40, 'a') + ".pin")));
  pins.Remove("a");
  pins.Remove("a");
  EXPECT_TRUE(pins.List(0).empty());
}

TEST_F(KvArchiveTest, KeptPins_AreFoundByTheNextProcess_UnlessTheyWereDroppedOrHaveExpired) {
  const double now = static_cast<double>(std::time(nullptr));
  {
    const auto store = source_->Open();
    EXPECT_TRUE(store->pins().Keep({"a", "s", {1, 2}, now + 100, 1}));
    EXPECT_TRUE(store->pins().Keep({"b", "s", {3}, now + 100}));
    EXPECT_TRUE(store->pins().Keep({"late", "s", {3}, now - 1}));
    EXPECT_TRUE(store->pins().Keep({"a", "s", {4}, now + 200}));
    EXPECT_EQ(store->pins().all().size(), 2u);
    store->pins().Drop("b");
    store->pins().Drop("nobody");
  }
  const std::vector<StoredPin> kept = source_->Open()->pins().all();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].name, "a");
  EXPECT_EQ(kept[0].tokens, std::vector<TokenId>{4});
  const auto other = source_->Open(R"({"block_size":4,"fingerprint":"g"})");
  EXPECT_TRUE(other->pins().all().empty()) << "another model's";
  for (size_t i = 0; i < StoredPins::kMost; ++i)
    EXPECT_TRUE(other->pins().Keep({std::to_string(i), "", {1}, now + 100}));
  EXPECT_FALSE(other->pins().Keep({"one more", "", {1}, now + 100}));
  EXPECT_TRUE(other->pins().Keep({"7", "", {2}, now + 100}));
  other->pins().Drop("8");
  EXPECT_TRUE(other->pins().Keep({"one more", "", {1}, now + 100}));
}

TEST_F(KvArchiveTest, KeptPins_StayInMemory_WhenTheDirectoryVanishes) {
  const auto store = source_->Open();
  fs::remove_all(source_->path());
  EXPECT_TRUE(store->pins().Keep({"a", "s", {1}, static_cast<double>(std::time(nullptr)) + 100}));
  EXPECT_EQ(store->pins().all().size(), 1u);
}

}  // namespace
}  // namespace quire
