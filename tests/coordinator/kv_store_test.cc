#include "coordinator/kv_disk/kv_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "comm/base/error.h"
#include "coordinator/kv_disk/kv_disk.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 1000;

StoredBlock BlockOf(uint64_t number) {
  StoredBlock block{{{number, 7}, {number - 1, 7}, {}}, std::vector<std::byte>(kBlockBytes)};
  for (int i = 0; i < 16; ++i) block.name.tokens.push_back(static_cast<TokenId>(number) * 100 + i);
  for (size_t i = 0; i < kBlockBytes; ++i) block.data[i] = static_cast<std::byte>(number * 31 + i);
  return block;
}

class KvStoreTest : public testing::Test {
 protected:
  KvStoreTest() {
    std::string name = fs::temp_directory_path() / "quire-kv-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~KvStoreTest() override { fs::remove_all(folder_); }

  std::string dir() const { return folder_ / "kv"; }
  std::unique_ptr<KvStore> Open(const std::string& space = "a model", int64_t max_bytes = 1 << 20) {
    return std::make_unique<KvStore>(KvStore::Options{
        .path = dir(), .max_bytes = max_bytes, .max_age_seconds = 3600, .space = space, .about = "it"});
  }
  /// Writes blocks `first` to `last` and waits until they are written.
  static void Write(KvStore& store, uint64_t first, uint64_t last) {
    const KvStoreCounts before = store.counts();
    for (uint64_t number = first; number <= last; ++number) store.Write(BlockOf(number));
    const auto count = static_cast<int64_t>(last - first + 1);
    const auto done = [&] {
      const KvStoreCounts now = store.counts();
      return now.stored + now.failed - before.stored - before.failed >= count || now.resting;
    };
    for (int i = 0; i < 2000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(done());
  }
  static KvStore::Found Read(KvStore& store, std::vector<StoredName> names, size_t bytes = kBlockBytes) {
    std::promise<KvStore::Found> found;
    store.Read(std::move(names), bytes, [&](KvStore::Found f) { found.set_value(std::move(f)); });
    return found.get_future().get();
  }
  static KvStore::Found Read(KvStore& store, uint64_t first, uint64_t last) {
    std::vector<StoredName> names;
    for (uint64_t number = first; number <= last; ++number) names.push_back(BlockOf(number).name);
    return Read(store, std::move(names));
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir())) {
      if (IsBlockFile(entry.path().filename())) files.push_back(entry.path());
    }
    return files;
  }

  fs::path folder_;
};

TEST_F(KvStoreTest, Blocks_AreFoundAgain_ByAnotherProcess) {
  {
    const auto store = Open();
    Write(*store, 1, 3);
    EXPECT_TRUE(store->Holds({1, 7}));
    EXPECT_FALSE(store->Holds({4, 7}));
  }
  const auto store = Open();
  EXPECT_TRUE(store->Holds({3, 7}));
  const KvStore::Found found = Read(*store, 1, 5);
  ASSERT_EQ(found.size(), 3u);
  for (uint64_t number = 1; number <= 3; ++number) EXPECT_EQ(found[number - 1], BlockOf(number).data);
  EXPECT_EQ(store->counts().found, 3);
  EXPECT_EQ(store->counts().files, 3);
}

TEST_F(KvStoreTest, FilesAndDirectories_AreAccessibleToTheirOwnerOnly) {
  Write(*Open(), 1, 1);
  for (const auto& entry : fs::recursive_directory_iterator(dir())) {
    struct stat info;
    ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
  fs::permissions(dir(), fs::perms(0755));
  EXPECT_THROW(Open(), Error);
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_WhateverByteIsFlipped) {
  Write(*Open(), 1, 1);
  const fs::path file = Files().front();
  const fs::path kept = folder_ / "kept";
  fs::copy(file, kept);
  for (uintmax_t at = 0; at < fs::file_size(kept); at += 13) {
    fs::copy(kept, file, fs::copy_options::overwrite_existing);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int byte = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(byte ^ 16));
    stream.close();
    const auto store = Open();
    EXPECT_TRUE(Read(*store, 1, 1).empty()) << at;
    EXPECT_EQ(store->counts().failed, 1);
    EXPECT_FALSE(store->Holds({1, 7})) << "a broken file is removed";
    EXPECT_TRUE(Files().empty());
  }
  fs::copy(kept, file);
  EXPECT_EQ(Read(*Open(), 1, 1).size(), 1u);
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_WhenTheFileIsCutOrLonger) {
  constexpr int64_t kMoreThanMemory = int64_t{64} << 30;  // the file is sparse
  for (const int64_t change : {int64_t{-2000}, int64_t{-1}, int64_t{1}, kMoreThanMemory}) {
    const auto store = Open();
    Write(*store, 1, 2);
    for (const fs::path& file : Files())
      fs::resize_file(file,
                      static_cast<uintmax_t>(std::max<int64_t>(0, static_cast<int64_t>(fs::file_size(file)) + change)));
    EXPECT_TRUE(Read(*store, 1, 2).empty()) << change;
    fs::remove_all(dir());
  }
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_ForOtherTokensParentsAndSizes) {
  const auto store = Open();
  const auto miss = [&](StoredName name, size_t bytes = kBlockBytes) {
    Write(*store, 1, 1);
    EXPECT_EQ(Read(*store, 1, 1).size(), 1u);
    EXPECT_TRUE(Read(*store, {std::move(name)}, bytes).empty());
  };
  StoredName name = BlockOf(1).name;
  name.tokens.back() ^= 1;
  miss(name);
  name = BlockOf(1).name;
  name.parent.high ^= 1;
  miss(name);
  name = BlockOf(1).name;
  name.tokens.pop_back();
  miss(name);
  miss(BlockOf(1).name, kBlockBytes - 4);
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_ForAFileOfAnotherModelOrAnotherName) {
  Write(*Open("a model"), 1, 2);
  const auto other = Open("another model");
  EXPECT_FALSE(other->Holds({1, 7}));
  EXPECT_TRUE(Read(*other, 1, 1).empty());
  Write(*other, 1, 2);
  // Puts the file of block 1 under the name of block 2, and the other model's file under this model's name.
  const std::vector<fs::path> files = Files();
  ASSERT_EQ(files.size(), 4u);
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t k = 0; k < files.size(); ++k) {
      if (i == k) continue;
      const fs::path kept = folder_ / "kept";
      fs::copy(files[k], kept, fs::copy_options::overwrite_existing);
      fs::copy(files[i], files[k], fs::copy_options::overwrite_existing);
      EXPECT_EQ(Read(*Open("a model"), 1, 1).size() + Read(*Open("a model"), 2, 2).size() +
                    Read(*Open("another model"), 1, 1).size() + Read(*Open("another model"), 2, 2).size(),
                3u);
      fs::copy(kept, files[k], fs::copy_options::overwrite_existing);
    }
  }
}

TEST_F(KvStoreTest, StateAndTheBlockBeforeIt_HaveSeparateFiles) {
  const auto store = Open();
  Write(*store, 1, 1);
  EXPECT_FALSE(store->Holds({1, 7}, StoredKind::kState));
  StoredBlock state = BlockOf(1);
  state.name.kind = StoredKind::kState;
  state.data.assign(3 * kBlockBytes, std::byte{5});
  store->Write(state);
  for (int i = 0; i < 2000 && store->counts().stored < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(store->Holds({1, 7}, StoredKind::kState));
  EXPECT_TRUE(Read(*store, {state.name}).empty()) << "a state of another size";
  EXPECT_EQ(Read(*store, 1, 1).size(), 1u);
  store->Write(state);
  for (int i = 0; i < 2000 && store->counts().stored < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(Read(*store, {state.name}, 3 * kBlockBytes), (KvStore::Found{state.data}));
  // Puts the block's file under the state's name. Both files have the same size.
  state.data.resize(kBlockBytes);
  store->Write(state);
  for (int i = 0; i < 2000 && store->counts().stored < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(Files().size(), 2u);
  fs::copy(Files()[0], folder_ / "kept");
  fs::copy(Files()[1], Files()[0], fs::copy_options::overwrite_existing);
  fs::copy(folder_ / "kept", Files()[1], fs::copy_options::overwrite_existing);
  EXPECT_TRUE(Read(*store, {state.name}).empty());
  EXPECT_TRUE(Read(*store, 1, 1).empty());
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_UnderAnotherSecret) {
  const PrefixCache::Key key = Open()->chain_key();
  Write(*Open(), 1, 1);
  const fs::path file = Files().front();
  fs::remove(fs::path(dir()) / "secret");
  const auto store = Open();
  EXPECT_NE(store->chain_key(), key);
  EXPECT_FALSE(store->Holds({1, 7}));
  Write(*store, 1, 1);
  ASSERT_EQ(Files().size(), 2u);
  for (const fs::path& other : Files()) {
    if (other == file) continue;
    fs::copy(file, other, fs::copy_options::overwrite_existing);
  }
  EXPECT_TRUE(Read(*store, 1, 1).empty());
}

TEST_F(KvStoreTest, TwoServers_ShareADirectory) {
  const auto first = Open(), second = Open();
  EXPECT_EQ(first->chain_key(), second->chain_key());
  std::thread writer([&] { Write(*first, 1, 40); });
  Write(*second, 1, 40);
  writer.join();
  EXPECT_EQ(Files().size(), 40u);
  EXPECT_EQ(Read(*first, 1, 40).size(), 40u);
  fs::remove(Files().front());
  EXPECT_LT(Read(*second, 1, 40).size(), 40u);
}

TEST_F(KvStoreTest, ManyServers_GetTheSameSecret_WhenTheyStartTogether) {
  std::vector<std::future<PrefixCache::Key>> keys;
  for (int i = 0; i < 8; ++i) keys.push_back(std::async(std::launch::async, [&] { return Open()->chain_key(); }));
  const PrefixCache::Key key = keys.front().get();
  for (size_t i = 1; i < keys.size(); ++i) EXPECT_EQ(keys[i].get(), key);
}

TEST_F(KvStoreTest, Block_IsNotStored_WhenTheDiskIsFull_AndNoPartOfItRemains) {
  const auto store = Open();
  Write(*store, 1, 1);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{kBlockBytes / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Write(*store, 2, 2);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(store->counts().resting);
  EXPECT_FALSE(store->HasRoom());
  EXPECT_FALSE(store->Holds({1, 7})) << "the directory rests";
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir())) files += entry.is_regular_file();
  EXPECT_EQ(files, 3u) << "the secret, the description and block 1";
  EXPECT_EQ(Read(*Open(), 1, 1).size(), 1u);
}

TEST_F(KvStoreTest, ReadBlock_IsAMiss_AfterTheDirectoryVanished) {
  const auto store = Open();
  Write(*store, 1, 2);
  fs::remove_all(dir());
  EXPECT_TRUE(Read(*store, 1, 2).empty());
  Write(*store, 3, 3);
  EXPECT_TRUE(store->counts().resting);
  EXPECT_FALSE(store->Holds({3, 7}));
}

TEST_F(KvStoreTest, SizeLimit_Holds_AndTheMostRecentlyUsedFilesAreKept) {
  const auto bytes = static_cast<int64_t>(BlockSeal::FileBytes(16, kBlockBytes));
  const auto store = Open("a model", 10 * bytes);
  for (uint64_t number = 1; number <= 10; ++number) {
    Write(*store, number, number);
    EXPECT_EQ(Read(*store, 1, 1).size(), 1u);
  }
  EXPECT_EQ(Files().size(), 10u);
  for (uint64_t number = 11; number <= 25; ++number) {
    Write(*store, number, number);
    EXPECT_EQ(Read(*store, 1, 1).size(), 1u) << number;
    EXPECT_LE(std::ssize(Files()), 10) << number;
  }
  EXPECT_GE(Files().size(), 9u);
  EXPECT_EQ(Read(*store, 25, 25).size(), 1u);
  EXPECT_FALSE(store->Holds({5, 7}));
  EXPECT_EQ(store->counts().removed, 25 - std::ssize(Files()));
  EXPECT_LE(store->counts().bytes, 10 * bytes);
}

TEST_F(KvStoreTest, NoteUse_RenewsTheTimeOfAFile_AtMostOncePerHour) {
  Write(*Open(), 1, 3);
  const auto age = [&](int minutes) {
    for (const fs::path& file : Files())
      fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  const auto num_young = [&] {
    return std::ranges::count_if(Files(), [](const fs::path& file) {
      return fs::last_write_time(file) > fs::file_time_type::clock::now() - std::chrono::minutes(5);
    });
  };
  for (const int minutes : {50, 59}) {
    age(minutes);
    const auto store = Open();
    store->NoteUse({{1, 7}, {2, 7}});
    Write(*store, 9, 9);  // the writing thread has started again
    EXPECT_EQ(num_young(), 1) << "the new block's";
    fs::remove_all(dir());
    Write(*Open(), 1, 3);
  }
  age(61);
  const auto again = std::make_unique<KvStore>(
      KvStore::Options{.path = dir(), .max_bytes = 1 << 20, .max_age_seconds = 1e6, .space = "a model", .about = "it"});
  again->NoteUse({{1, 7}, {2, 7}});
  Write(*again, 9, 9);
  EXPECT_EQ(num_young(), 3);
}

TEST_F(KvStoreTest, SizeLimit_CountsFilesOfOtherModels) {
  const auto bytes = static_cast<int64_t>(BlockSeal::FileBytes(16, kBlockBytes));
  Write(*Open("a model"), 1, 8);
  const auto other = Open("another model", 4 * bytes);
  EXPECT_LE(std::ssize(Files()), 4);
  Write(*other, 1, 3);
  EXPECT_EQ(Read(*other, 1, 3).size(), 3u);
  EXPECT_LE(std::ssize(Files()), 4);
}

TEST_F(KvStoreTest, Start_RemovesUnfinishedFiles_AndFilesUnusedForLongerThanMaxAge) {
  Write(*Open(), 1, 2);
  const fs::path old = Files().front(), part = old.parent_path() / "12.3.part", fresh = old.parent_path() / "12.4.part";
  std::ofstream(part) << "half";
  std::ofstream(fresh) << "half";
  const auto hours = [](int count) { return fs::file_time_type::clock::now() - std::chrono::hours(count); };
  fs::last_write_time(old, hours(2));
  fs::last_write_time(part, hours(2));
  Open();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(part));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(KvStoreTest, Links_AreNotFollowed) {
  Write(*Open(), 1, 1);
  const fs::path file = Files().front(), target = folder_ / "elsewhere";
  fs::rename(file, target);
  fs::create_symlink(target, file);
  const auto store = Open();
  EXPECT_TRUE(Read(*store, 1, 1).empty());
  fs::rename(dir(), folder_ / "moved");
  fs::create_directory_symlink(folder_ / "moved", dir());
  for (const char* end : {"", "/", "//"}) {
    EXPECT_THROW(KvStore({.path = dir() + end, .max_bytes = 1, .max_age_seconds = 1, .space = "a", .about = ""}), Error)
        << end;
  }
}

TEST_F(KvStoreTest, Secret_IsRefused_WhenOtherUsersMayReadIt) {
  Open();
  const fs::path secret = fs::path(dir()) / "secret";
  fs::permissions(secret, fs::perms(0644));
  EXPECT_THROW(Open(), Error);
  fs::permissions(secret, fs::perms(0600));
  fs::resize_file(secret, 5);
  EXPECT_THROW(Open(), Error);
}

TEST_F(KvStoreTest, Files_RevealNothingOfTheirTokensAndValues) {
  Write(*Open(), 1, 1);
  std::ifstream stream(Files().front(), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  const StoredBlock block = BlockOf(1);
  const std::string data(reinterpret_cast<const char*>(block.data.data()), 16);
  const std::string tokens(reinterpret_cast<const char*>(block.name.tokens.data()), 8);
  EXPECT_EQ(content.find(data), std::string::npos);
  EXPECT_EQ(content.find(tokens), std::string::npos);
  fs::remove_all(dir());
  const auto other = Open();
  Write(*other, 1, 1);
  std::ifstream again(Files().front(), std::ios::binary);
  EXPECT_NE(content, std::string((std::istreambuf_iterator<char>(again)), {}));
}

}  // namespace
}  // namespace quire
