#include "coordinator/kv_disk/kv_file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

KvFolder::Entry EntryNamed(const std::string& name, int64_t bytes, double used_seconds, std::string folder = "own") {
  KvFolder::Entry entry;
  entry.folder = std::move(folder);
  entry.name = name;
  entry.bytes = bytes;
  entry.used_seconds = used_seconds;
  return entry;
}

TEST(KvFileListTest, SumsOfBytesAndFiles_FollowFiles_ThatAreAddedReplacedAndForgotten) {
  KvFileList files("own", 1000);
  files.Add("a", 100, 1);
  files.Add("b", 50, 2);
  files.Add("a", 70, 3);
  EXPECT_EQ(files.num_files(), 2);
  EXPECT_EQ(files.num_bytes(), 120);
  files.Forget("a");
  files.Forget("a");
  EXPECT_EQ(files.num_files(), 1);
  EXPECT_EQ(files.num_bytes(), 50);
  files.Replace({EntryNamed("c", 7, 1)});
  EXPECT_EQ(files.num_bytes(), 7);
}

TEST(KvFileListTest, Holds_IsTrue_OnlyForFilesOfTheOwnFolder) {
  KvFileList files("own", 1000);
  files.Replace({EntryNamed("a", 1, 1), EntryNamed("b", 1, 1, "other")});
  EXPECT_TRUE(files.Holds("a"));
  EXPECT_FALSE(files.Holds("b"));
  files.Forget("a");
  EXPECT_FALSE(files.Holds("a"));
}

TEST(KvFileListTest, FilesToRemove_AreThoseUsedLongestAgo_UntilATwentiethOfTheBytesIsFree) {
  KvFileList files("own", 1000);
  files.Replace({EntryNamed("new", 400, 30), EntryNamed("oldest", 100, 10, "other"), EntryNamed("old", 300, 20)});
  EXPECT_THAT(files.Surplus(200), IsEmpty());
  EXPECT_THAT(files.Surplus(201), ElementsAre(Pair("oldest", "other")));
  files.SetUse("oldest", 40);
  EXPECT_EQ(files.UseOf("oldest"), 40);
  EXPECT_THAT(files.Surplus(201), ElementsAre(Pair("old", "own")));
}

TEST(KvFileListTest, Surplus_ReturnsAboutATwentiethOfTheFiles_WhenTheirNumberIsAtTheLimit) {
  KvFileList files("own", int64_t{1} << 40);
  std::vector<KvFolder::Entry> entries;
  for (int64_t i = 0; i < KvFileList::kMostFiles; ++i)
    entries.push_back(EntryNamed(std::to_string(i), 1, static_cast<double>(i)));
  files.Replace(std::move(entries));
  const auto surplus = files.Surplus(1);
  ASSERT_GT(std::ssize(surplus), KvFileList::kMostFiles / 21);
  EXPECT_LT(std::ssize(surplus), KvFileList::kMostFiles / 19);
  EXPECT_EQ(surplus.front().first, "0");
}

TEST(KvFileListTest, SetUse_IgnoresUnknownFiles) {
  KvFileList files("own", 1000);
  files.SetUse("none", 5);
  EXPECT_EQ(files.UseOf("none"), std::nullopt);
  EXPECT_EQ(files.num_files(), 0);
}

}  // namespace
}  // namespace quire
