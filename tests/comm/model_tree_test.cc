// Tests which files can be opened as parts of a model, what happens when such a file changes afterwards, and lists of
// checksums.
#include "comm/model/model_tree.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "comm/base/error.h"
#include "comm/model/checksums.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/model/formats/mapping_errors.h"
#include "comm/model/model_files.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModels = std::string(QUIRE_TEST_DATA) + "/models/";

class ModelTreeTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = directory_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  /// Makes a copy of a golden model whose files are links into a blobs folder, as in the Hugging Face cache.
  std::string Snapshot() {
    const fs::path repository = directory_ / "cache/models--quire--mqa", snapshot = repository / "snapshots/abc";
    fs::create_directories(snapshot);
    fs::create_directories(repository / "blobs");
    int number = 0;
    for (const auto& entry : fs::directory_iterator(kModels + "mqa")) {
      const std::string blob = std::to_string(++number);
      fs::copy_file(entry.path(), repository / "blobs" / blob);
      fs::create_symlink("../../blobs/" + blob, snapshot / entry.path().filename());
    }
    return snapshot;
  }

  TemporaryDirectory directory_;
};

TEST_F(ModelTreeTest, Open_RefusesPipesAndDevices_WithoutWaiting) {
  const std::string pipe = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const auto links : {RegularFile::Links::kFollowed, RegularFile::Links::kRefused}) {
    EXPECT_THAT(ErrorThrownBy([&] { RegularFile::Open(pipe, links); }),
                AllOf(HasSubstr(pipe), HasSubstr("not a regular file")));
    for (const std::string path : {"/", "/dev/null", "/dev/zero", "/dev/tty"})
      EXPECT_NE(ErrorThrownBy([&] { RegularFile::Open(path, links); }), "") << path;
    EXPECT_THAT(ErrorThrownBy([&] { RegularFile::Open(directory_ / "none", links); }), HasSubstr("No such file"));
  }
  // A pipe at the path of a model file or topology file is refused. Opening it must not wait for a writer.
  EXPECT_THAT(ErrorThrownBy([&] { MappedFile{pipe}; }), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorThrownBy([&] { ReadTextFile(pipe, 100); }), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(pipe); }), HasSubstr("not a regular file"));
  EXPECT_THAT(ErrorThrownBy([&] { VerifyChecksums(kModels + "mqa", pipe); }), HasSubstr("not a regular file"));
  fs::copy(kModels + "mqa", directory_ / "model");
  for (const std::string name : {"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"}) {
    fs::rename(directory_ / "model/" + name, directory_ / "kept");
    ASSERT_EQ(::mkfifo((directory_ / "model/" + name).c_str(), 0600), 0);
    EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(directory_ / "model"); }),
                AllOf(HasSubstr(name), HasSubstr("not a regular file")));
    fs::rename(directory_ / "kept", directory_ / "model/" + name);
  }
}

TEST_F(ModelTreeTest, Links_AreFollowed_WhenTheyStayInsideTheTree) {
  Write("model/real/text", "hello");
  fs::create_symlink("real/text", directory_ / "model/link");
  fs::create_symlink("model", directory_ / "other_name");
  EXPECT_EQ(ModelTree(directory_ / "model").ReadText("link", 100), "hello");
  EXPECT_EQ(ModelTree(directory_ / "other_name").ReadText("link", 100), "hello");
  EXPECT_EQ(ModelTree(directory_ / "model/").ReadText("link", 100), "hello");
  const std::string real = kModels + "mqa";
  fs::create_symlink(real, directory_ / "whole_model");
  EXPECT_EQ(ModelFiles::Open(directory_ / "whole_model").Fingerprint(), ModelFiles::Open(real).Fingerprint());
  fs::create_symlink(kModels + "mqa.gguf", directory_ / "file.gguf");  // a file that was named directly may be anywhere
  EXPECT_EQ(ModelFiles::Open(directory_ / "file.gguf").Fingerprint(),
            ModelFiles::Open(kModels + "mqa.gguf").Fingerprint());
}

TEST_F(ModelTreeTest, Links_AreRefusedByName_WhenTheyLeaveTheTree) {
  const std::string secret = Write("secret", "hush");
  Write("model/text", "hello");
  Write("model-of-another/text", "other");  // a folder whose name begins with the same text
  for (const std::string& target : {secret, std::string("../secret"), std::string("../model-of-another/text")}) {
    fs::remove(directory_ / "model/link");
    fs::create_symlink(target, directory_ / "model/link");
    EXPECT_THAT(ErrorThrownBy([&] { ModelTree(directory_ / "model").Open("link"); }),
                AllOf(HasSubstr("model/link leads out of the model's directory, to "), HasSubstr("copy that file")))
        << target;
  }
  fs::create_directory_symlink(directory_.path(), directory_ / "model/up");
  EXPECT_THAT(ErrorThrownBy([&] { ModelTree(directory_ / "model").Open("up/secret"); }), HasSubstr("leads out"));
  fs::create_symlink("nowhere", directory_ / "model/dangling");
  EXPECT_TRUE(ModelTree(directory_ / "model").Has("dangling")) << "it is refused, not overlooked";
  EXPECT_THAT(ErrorThrownBy([&] { ModelTree(directory_ / "model").Open("dangling"); }), HasSubstr("No such file"));
  fs::copy(kModels + "mqa", directory_ / "mqa");
  for (const std::string name : {"config.json", "generation_config.json", "model-00002-of-00002.safetensors"}) {
    fs::rename(directory_ / "mqa/" + name, directory_ / name);
    fs::create_symlink("../" + name, directory_ / "mqa/" + name);
    EXPECT_THAT(ErrorThrownBy([&] { ModelFiles::Open(directory_ / "mqa"); }),
                AllOf(HasSubstr(name), HasSubstr("leads out")));
    fs::rename(directory_ / name, directory_ / "mqa/" + name);
  }
}

TEST_F(ModelTreeTest, TreeOfACachedSnapshot_IncludesItsBlobs) {
  const std::string snapshot = Snapshot();
  EXPECT_EQ(ModelFiles::Open(snapshot).Fingerprint(), ModelFiles::Open(kModels + "mqa").Fingerprint());
  Write("cache/models--other/blobs/1", "{}");
  for (const std::string target : {"../../../models--other/blobs/1", "../../refs/main"}) {
    Write("cache/models--quire--mqa/refs/main", "abc");
    fs::remove(snapshot + "/chat_template.jinja");
    fs::create_symlink(target, snapshot + "/chat_template.jinja");
    EXPECT_THAT(ErrorThrownBy([&] { ModelTree(snapshot).Open("chat_template.jinja"); }), HasSubstr("leads out"))
        << target;
  }
}

TEST_F(ModelTreeTest, FolderOfBlobs_MayBeALink) {
  const std::string snapshot = Snapshot(), blobs = directory_ / "cache/models--quire--mqa/blobs";
  fs::rename(blobs, directory_ / "large_disk");
  fs::create_directory_symlink(directory_ / "large_disk", blobs);
  EXPECT_EQ(ModelFiles::Open(snapshot).Fingerprint(), ModelFiles::Open(kModels + "mqa").Fingerprint());
  Write("large_disk_of_others/1", "{}");
  fs::create_symlink("../../../../large_disk_of_others/1", snapshot + "/chat_template.jinja");
  EXPECT_THAT(ErrorThrownBy([&] { ModelTree(snapshot).Open("chat_template.jinja"); }), HasSubstr("leads out"));
}

TEST_F(ModelTreeTest, ClosedModels_KeepTheirMetadata_ButNoMapping) {
  for (const std::string name : {"mqa", "mqa.gguf"}) {
    fs::copy(kModels + name, directory_ / name);
    ModelFiles model = ModelFiles::Open(directory_ / name);
    const std::string fingerprint = model.Fingerprint();
    const ModelDtype dtype = model.GpuDtype();
    const int64_t bytes = model.TotalBytes();
    const auto mapped = [&] {
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);)
        if (line.find(directory_.path()) != std::string::npos) return true;
      return false;
    };
    EXPECT_TRUE(mapped());
    model.CloseFiles();
    EXPECT_FALSE(mapped());
    EXPECT_EQ(model.Fingerprint(), fingerprint);
    EXPECT_EQ(model.GpuDtype(), dtype);
    EXPECT_EQ(model.TotalBytes(), bytes);
    EXPECT_TRUE(model.Get(Role::kFinalNorm).data.empty());
    EXPECT_EQ(model.gguf() != nullptr, name == "mqa.gguf");
  }
}

TEST_F(ModelTreeTest, TruncatedMapping_EndsTheProcess_AndNamesTheFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch_after_truncation = [&] {
    const MappedFile other(Write("other", "text")), file(Write("model.bin", std::string(1 << 16, 'x')));
    ReportMappingErrors("quire-worker: rank 3");
    (void)!::truncate((directory_ / "model.bin").c_str(), 4096);
    std::exit(std::accumulate(file.bytes().begin(), file.bytes().end(), 0,
                              [](int sum, std::byte b) { return sum + std::to_integer<int>(b); }));
  };
  EXPECT_EXIT(touch_after_truncation(), testing::ExitedWithCode(1),
              "^quire-worker: rank 3: .*/model.bin: the file was cut short");
  // Checks that a bus error outside model files kills the process, as it does without the handler.
  EXPECT_EXIT((ReportMappingErrors("quire"), std::raise(SIGBUS), std::raise(SIGBUS)), testing::KilledBySignal(SIGBUS),
              "");
}

class ChecksumsTest : public ModelTreeTest {
 protected:
  void SetUp() override {
    for (const std::string name : {"mqa", "mqa.gguf"}) fs::copy(kModels + name, directory_ / name);
    // The tool sha256sum itself writes the list.
    list_ = directory_ / "SHA256SUMS";
    RunSum("mqa", "*", list_);
  }
  void RunSum(const std::string& folder, const std::string& what, const std::string& list) const {
    const std::string command = "cd " + (directory_ / folder) + " && sha256sum " + what + " > " + list;
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << command;
  }
  std::string Verify() const {
    return ErrorThrownBy([&] { VerifyChecksums(directory_ / "mqa", list_); });
  }
  std::string list_;
};

TEST_F(ChecksumsTest, Files_AreAccepted_WhenTheyMatchTheList) {
  EXPECT_EQ(Verify(), "");
  EXPECT_GT(VerifyChecksums(directory_ / "mqa", list_), ModelFiles::Open(directory_ / "mqa").TotalBytes());
  RunSum("", "-b mqa.gguf", directory_ / "one");
  const auto size = static_cast<int64_t>(fs::file_size(directory_ / "mqa.gguf"));
  EXPECT_EQ(VerifyChecksums(directory_ / "mqa.gguf", directory_ / "one"), size);
  RunSum("mqa", "./*", list_);
  EXPECT_EQ(Verify(), "") << "names may begin with ./";
}

TEST_F(ChecksumsTest, ChangedByteOfAFile_IsNoticedByChecksums_ThoughTheFingerprintIsUnchanged) {
  const std::string path = directory_ / "mqa/model-00001-of-00002.safetensors";
  const std::string before = ModelFiles::Open(directory_ / "mqa").Fingerprint();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_EQ(ModelFiles::Open(directory_ / "mqa").Fingerprint(), before);
  EXPECT_THAT(Verify(), AllOf(HasSubstr(path + " is not the file that"), HasSubstr("fetch it again")));
}

TEST_F(ChecksumsTest, Files_AreRefused_WhenTheyAreNotListed) {
  Write("mqa/chat_template.jinja", "{{ 1 }}");
  EXPECT_THAT(Verify(), HasSubstr("chat_template.jinja is not in " + list_));
  fs::remove(directory_ / "mqa/chat_template.jinja");
  Write("mqa/README.md", "is not read");
  EXPECT_EQ(Verify(), "");
  fs::remove(directory_ / "mqa/config.json");
  fs::create_symlink(kModels + "mqa/config.json", directory_ / "mqa/config.json");
  EXPECT_THAT(Verify(), HasSubstr("leads out"));
}

TEST_F(ChecksumsTest, MalformedLists_AreRefused_WithTheirLine) {
  const std::string digest(64, 'a');
  const std::vector<std::string> lines = {"",
                                          "config.json",
                                          "SHA256 (config.json) = x",
                                          "abc  config.json",
                                          digest + " config.json",
                                          digest + "  ",
                                          digest.substr(1) + "G  config.json",
                                          "\\" + digest + "  a"};
  for (const std::string& line : lines) {
    Write("SHA256SUMS", digest + "  a\n" + line + "\n");
    EXPECT_THAT(Verify(), HasSubstr("SHA256SUMS:2: not a line of sha256sum")) << line;
  }
  Write("SHA256SUMS", digest + "  a\n" + std::string(64, 'b') + "  a\n");
  EXPECT_THAT(Verify(), HasSubstr("SHA256SUMS:2: a is there twice"));
}

}  // namespace
}  // namespace quire
