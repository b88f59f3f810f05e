#include "comm/base/secret_file.h"

#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "comm/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

class SecretFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(::sodium_init(), 0);
    CreateFile(path_, "hush", 0600);
  }
  /// Returns the reason why the file is refused, or "" when it is accepted.
  std::string Refusal(FileAccess access = FileAccess::kOwnerOnly) const {
    return ErrorThrownBy([&] { (void)ReadGuardedFile(path_, access, 100); });
  }
  bool RefusesAs(const std::string& words) const {
    const std::string refusal = Refusal();
    return refusal.find(words) != std::string::npos && refusal.find(path_) != std::string::npos;
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_ / "key";
};

TEST_F(SecretFileTest, File_IsRead_WhenOnlyItsOwnerHasAccess) {
  EXPECT_EQ(ReadGuardedFile(path_, FileAccess::kOwnerOnly, 4).view(), "hush");
}

TEST_F(SecretFileTest, File_IsRefused_WhenItsModeLetsOthersIn) {
  for (const mode_t bit : {0040, 0020, 0010, 0004, 0002, 0001}) {
    ASSERT_EQ(::chmod(path_.c_str(), 0600 | bit), 0);
    EXPECT_TRUE(RefusesAs("chmod 0600")) << std::oct << bit;
    EXPECT_EQ(Refusal(FileAccess::kOthersMayRead).empty(), (bit & 022) == 0) << std::oct << bit;
  }
}

TEST_F(SecretFileTest, LinksDirectoriesPipesAndMissingFiles_AreRefused) {
  std::filesystem::rename(path_, directory_ / "elsewhere");
  EXPECT_TRUE(RefusesAs("No such file"));
  std::filesystem::create_symlink(directory_ / "elsewhere", path_);
  EXPECT_TRUE(RefusesAs("symbolic link"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_TRUE(RefusesAs("not a regular file"));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(RefusesAs("not a regular file"));  // opening a pipe does not wait for a writer
}

TEST_F(SecretFileTest, FilesOfOtherUsers_AreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path_.c_str(), 1234, 1234), 0);
  EXPECT_TRUE(RefusesAs("belongs to user 1234"));
}

TEST_F(SecretFileTest, LongFiles_AreRefused) {
  std::filesystem::resize_file(path_, 101);
  EXPECT_TRUE(RefusesAs("larger than 100 bytes"));
}

TEST_F(SecretFileTest, CreateFile_SetsTheMode_AndNeverOverwrites) {
  const mode_t before = ::umask(0777);
  CreateFile(directory_ / "new", "x", 0640);
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_THROW(CreateFile(path_, "other", 0600), Error);
  std::filesystem::create_symlink(directory_ / "nowhere", directory_ / "link");
  EXPECT_THROW(CreateFile(directory_ / "link", "other", 0600), Error);
  EXPECT_EQ(ReadGuardedFile(path_, FileAccess::kOwnerOnly, 100).view(), "hush");
}

}  // namespace
}  // namespace quire
