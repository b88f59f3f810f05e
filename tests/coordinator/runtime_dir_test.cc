#include "coordinator/cluster/launch/runtime_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace quire {
namespace {

namespace fs = std::filesystem;

/// Gives the process an empty runtime folder of its own.
class RuntimeDirTest : public testing::Test {
 protected:
  RuntimeDirTest() {
    std::string path = fs::temp_directory_path() / "quire-run-XXXXXX";
    folder_ = ::mkdtemp(path.data());
    ::setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  ~RuntimeDirTest() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(folder_);
  }
  /// Makes a directory that holds one empty file. Returns its path.
  fs::path Make(const std::string& name, const std::string& file) {
    fs::create_directory(folder_ / name);
    std::ofstream(folder_ / name / file).flush();
    return folder_ / name;
  }

  fs::path folder_;
};

TEST_F(RuntimeDirTest, RuntimeDir_IsRemovedWithItsServer) {
  fs::path path;
  {
    const RuntimeDir directory;
    path = directory.path();
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RuntimeDirTest, RuntimeDir_OfAKilledServer_IsRemovedByTheNextServer) {
  const RuntimeDir running;
  const fs::path killed = Make("quire.killed", "runtime.lock");
  const RuntimeDir next;
  EXPECT_FALSE(fs::exists(killed));
  EXPECT_TRUE(fs::exists(running.path())) << "its server runs";
}

// Batches, journals and KV files are kept in directories that an operator may place beside the runtime directories.
TEST_F(RuntimeDirTest, OtherDirectories_AreKept_WhenTheyHaveALockThatNobodyHolds) {
  const fs::path kept = Make("quire.batches", "lock");
  const RuntimeDir next;
  EXPECT_TRUE(fs::exists(kept / "lock"));
}

TEST_F(RuntimeDirTest, RuntimeDir_IsMadeElsewhere_WhenOthersMayRenameFilesInTheRuntimeFolder) {
  fs::permissions(folder_, fs::perms::all);
  EXPECT_FALSE(RuntimeDir().path().starts_with(folder_.string()));
  fs::permissions(folder_, fs::perms::all | fs::perms::sticky_bit);
  EXPECT_TRUE(RuntimeDir().path().starts_with(folder_.string()));
}

}  // namespace
}  // namespace quire
