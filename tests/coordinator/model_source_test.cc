#include "coordinator/cli/model_source.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/base/error.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

/// A Hugging Face cache in a temporary folder, and environment variables that point to this cache.
class ModelSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) ::unsetenv(name);
    ::setenv("HF_HOME", root_.c_str(), 1);
  }
  ~ModelSourceTest() override { fs::remove_all(root_); }

  void AddModel(const std::string& folder, const std::string& commit, const std::vector<std::string>& files) {
    const fs::path repository = root_ / "hub" / folder;
    fs::create_directories(repository / "refs");
    fs::create_directories(repository / "snapshots" / commit);
    WriteTextFile(repository / "refs" / "main", commit);
    for (const std::string& file : files) WriteTextFile(repository / "snapshots" / commit / file, "{}");
  }
  static std::string Refusal(const std::string& text) {
    try {
      return "found " + FindModel(text);
    } catch (const Error& error) {
      return error.what();
    }
  }

  const fs::path root_ = fs::path(testing::TempDir()) / ("model_source_" + std::to_string(::getpid()));
};

TEST_F(ModelSourceTest, IsModelName_DistinguishesNamesFromPaths) {
  for (const char* name : {"Qwen/Qwen3-0.6B", "a/b", "org_1/model.v2"}) EXPECT_TRUE(IsModelName(name)) << name;
  for (const char* path : {"model.gguf", "/models/x", "./x/y", "../x", "a/b/c", "a/", "/a", "a/.b", "a b/c", ""})
    EXPECT_FALSE(IsModelName(path)) << path;
}

TEST_F(ModelSourceTest, FindModel_ReturnsTheSnapshotOfTheMainBranch) {
  AddModel("models--Org--Model", "abc123", {"config.json"});
  fs::create_directories(root_ / "hub/models--Org--Model/snapshots/older");
  EXPECT_EQ(FindModel("Org/Model"), root_ / "hub/models--Org--Model/snapshots/abc123");
}

TEST_F(ModelSourceTest, FindModel_TakesTheGgufFileOfTheNamedKind) {
  AddModel("models--Org--Files", "abc123",
           {"m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"});
  const fs::path snapshot = root_ / "hub/models--Org--Files/snapshots/abc123";
  EXPECT_EQ(FindModel("Org/Files:Q4_K_M"), snapshot / "m-Q4_K_M.gguf");
  EXPECT_EQ(FindModel("Org/Files:q4_k_s"), snapshot / "m-Q4_K_S.gguf");
  EXPECT_EQ(FindModel("Org/Files:Q8_0"), snapshot / "m-Q8_0-00001-of-00002.gguf");
  EXPECT_TRUE(IsModelHere("Org/Files:Q8_0"));
  EXPECT_TRUE(IsCached("Org/Files:Q2_K"));
  EXPECT_FALSE(IsModelHere("Org/Files:Q2_K"));
  EXPECT_FALSE(IsModelHere("Org/Files:Q4")) << "a part of a word is no kind";
  EXPECT_EQ(Refusal("Org/Files:Q2_K"),
            "Org/Files:Q2_K: no GGUF file of Q2_K is in " + snapshot.string() + "; add --fetch to fetch it");
  EXPECT_FALSE(IsModelHere("Org/Other:Q2_K"));
}

TEST_F(ModelSourceTest, FindModel_SaysThatNamesOfOllamaAreUnknown) {
  EXPECT_NE(Refusal("llama3:8b").find("give ORG/NAME of Hugging Face"), std::string::npos) << Refusal("llama3:8b");
  EXPECT_EQ(Refusal("llama3"), "found llama3");
}

TEST_F(ModelSourceTest, HuggingFaceCache_IsAbsolute_WhenHomeIsRelativeOrMissing) {
  ::unsetenv("HF_HOME");
  const char* before = std::getenv("HOME");
  const std::string home = before != nullptr ? before : "";
  for (const char* none : {"", ".", "relative/home"}) {
    ::setenv("HOME", none, 1);
    EXPECT_TRUE(HuggingFaceCache().is_absolute()) << none;
  }
  ::unsetenv("HOME");
  EXPECT_TRUE(HuggingFaceCache().is_absolute());
  before != nullptr ? ::setenv("HOME", home.c_str(), 1) : ::unsetenv("HOME");
}

TEST_F(ModelSourceTest, FindModel_ReturnsTheOnlyGgufFile_AndRefusesSeveral) {
  AddModel("models--Org--One", "c1", {"one.gguf", "README.md"});
  EXPECT_EQ(FindModel("Org/One"), root_ / "hub/models--Org--One/snapshots/c1/one.gguf");
  AddModel("models--Org--Two", "c2", {"q4.gguf", "q8.gguf"});
  const std::string two = root_ / "hub/models--Org--Two/snapshots/c2/";
  EXPECT_EQ(Refusal("Org/Two"), "Org/Two: several GGUF files; give one of them: " + two + "q4.gguf " + two + "q8.gguf");
  AddModel("models--Org--None", "c3", {"README.md"});
  EXPECT_NE(Refusal("Org/None").find("neither config.json nor a GGUF file"), std::string::npos);
}

TEST_F(ModelSourceTest, FindModel_ReturnsTheGgufFileOfAFolder_WithoutOtherWeights) {
  const fs::path folder = root_ / "folder";
  const auto add = [&](const std::string& file) {
    fs::create_directories((folder / file).parent_path());
    WriteTextFile(folder / file, "{}");
  };
  add("one.gguf");
  add("mmproj-F16.gguf");
  add("README.md");
  EXPECT_EQ(FindModel(folder), folder / "one.gguf") << "a model's eyes are no model";
  add("config.json");
  EXPECT_EQ(FindModel(folder), folder / "one.gguf") << "some repositories have the file it was made from, too";
  add("model.safetensors");
  EXPECT_EQ(FindModel(folder), folder);
  fs::remove(folder / "model.safetensors");
  fs::remove(folder / "one.gguf");
  EXPECT_EQ(FindModel(folder), folder);
  add("Q8_0/big-Q8_0-00001-of-00002.gguf");
  add("Q8_0/big-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(FindModel(folder), folder / "Q8_0/big-Q8_0-00001-of-00002.gguf") << "the parts are one model";
  add("big-Q4_0.gguf");
  EXPECT_NE(Refusal(folder).find("several GGUF files"), std::string::npos);
  AddModel("models--Org--Split", "c", {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "config.json"});
  EXPECT_EQ(FindModel("Org/Split"), root_ / "hub/models--Org--Split/snapshots/c/m-00001-of-00002.gguf");
}

TEST_F(ModelSourceTest, ModelsIn_NamesFoldersAndGgufFiles_AndASplitModelOnce) {
  const fs::path folder = root_ / "models";
  for (const char* file : {"zeta/config.json", "alpha/x-Q8_0.gguf", "notes/readme.md", "one.Q4_1.gguf",
                           "mmproj-F16.gguf", "list.txt", "big-00001-of-00002.gguf", "big-00002-of-00002.gguf"}) {
    fs::create_directories((folder / file).parent_path());
    WriteTextFile(folder / file, "{}");
  }
  const std::vector<std::pair<std::string, std::string>> models = {{"alpha", folder / "alpha"},
                                                                   {"big", folder / "big-00001-of-00002.gguf"},
                                                                   {"one.Q4_1", folder / "one.Q4_1.gguf"},
                                                                   {"zeta", folder / "zeta"}};
  EXPECT_EQ(ModelsIn(folder), models);
  EXPECT_THROW(ModelsIn(folder / "notes"), Error) << "no model";
  EXPECT_THROW(ModelsIn(folder / "nowhere"), Error);
  EXPECT_THROW(ModelsIn(folder / "list.txt"), Error) << "no directory";
}

TEST_F(ModelSourceTest, FindModel_ReturnsPathsUnchanged) {
  AddModel("models--here--there", "c", {"config.json"});
  const fs::path before = fs::current_path();
  fs::create_directories(root_ / "here/there");
  fs::current_path(root_);
  EXPECT_EQ(FindModel("here/there"), "here/there") << "a folder of that name comes first";
  fs::current_path(before);
  EXPECT_EQ(FindModel("/no/such/model"), "/no/such/model");
  EXPECT_EQ(FindModel("no-such.gguf"), "no-such.gguf");
}

TEST_F(ModelSourceTest, FindModel_NamesTheCache_WhenTheModelIsMissing) {
  const std::string missing = "Org/Model: no such path, and no model of this name in " + (root_ / "hub").string();
  EXPECT_EQ(Refusal("Org/Model"), missing);
  AddModel("models--Org--Model", "abc", {"config.json"});
  for (const char* commit : {"../../../../etc", "gone"}) {  // references outside the cache, or to a missing snapshot
    WriteTextFile(root_ / "hub/models--Org--Model/refs/main", commit);
    EXPECT_EQ(Refusal("Org/Model"), missing) << commit;
    EXPECT_FALSE(IsCached("Org/Model")) << commit;
  }
}

TEST_F(ModelSourceTest, IsModelHere_NeedsWeights_AndEveryFileOfTheirIndex) {
  const auto holds = [&](const std::string& name, const std::vector<std::string>& files) {
    AddModel("models--Org--" + name, "c", files);
    return IsModelHere("Org/" + name);
  };
  EXPECT_FALSE(IsModelHere("Org/Missing"));
  EXPECT_FALSE(holds("Begun", {"config.json"}));
  EXPECT_TRUE(IsCached("Org/Begun"));
  EXPECT_TRUE(holds("Whole", {"config.json", "model.safetensors"}));
  EXPECT_TRUE(holds("Gguf", {"m.gguf"}));
  EXPECT_FALSE(holds("Parts", {"model.safetensors.index.json", "a.safetensors"})) << "an index without weight_map";
  const fs::path parts = root_ / "hub/models--Org--Parts/snapshots/c";
  WriteTextFile(parts / "model.safetensors.index.json",
                R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  EXPECT_FALSE(IsModelHere("Org/Parts"));
  WriteTextFile(parts / "b.safetensors", "{}");
  EXPECT_TRUE(IsModelHere("Org/Parts"));
  for (const char* text : {"{", R"({"weight_map": {"x": 1}})", R"({"weight_map": 2})"}) {
    WriteTextFile(parts / "model.safetensors.index.json", text);
    EXPECT_FALSE(IsModelHere("Org/Parts")) << text;
  }
  for (const char* other : {"/no/such/model", "no-such.gguf", "a/b/c"}) EXPECT_TRUE(IsModelHere(other)) << other;
}

TEST_F(ModelSourceTest, HuggingFaceCache_FollowsTheEnvironmentVariables) {
  EXPECT_EQ(HuggingFaceCache(), root_ / "hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/before", 1);
  EXPECT_EQ(HuggingFaceCache(), "/before");
  ::setenv("HF_HUB_CACHE", "/elsewhere", 1);
  EXPECT_EQ(HuggingFaceCache(), "/elsewhere");
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"}) ::unsetenv(name);
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(HuggingFaceCache(), "/xdg/huggingface/hub");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(HuggingFaceCache(), "/home/someone/.cache/huggingface/hub");
  ::setenv("HF_HUB_CACHE", "~/models", 1);
  EXPECT_EQ(HuggingFaceCache(), "/home/someone/models");
}

}  // namespace
}  // namespace quire
