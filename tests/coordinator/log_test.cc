#include "coordinator/log/log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <thread>

#include "comm/base/json.h"
#include "coordinator/log/line_log.h"

namespace quire {
namespace {

/// While an object exists, the files of this process can have at most this many bytes, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Waits until the file has this number of lines and ends with this line.
void AwaitLines(const std::string& path, size_t number, const std::string& last) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    const std::vector<std::string> lines = LinesOf(path);
    if (lines.size() == number && lines.back() == last) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << LinesOf(path).size() << " lines instead of " << number;
}

class LineLogTest : public testing::Test {
 protected:
  LineLogTest() { std::filesystem::remove(path_); }
  ~LineLogTest() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "line_log_" + std::to_string(::getpid());
};

TEST_F(LineLogTest, Write_KeepsEveryLineInOrder_WhileTheDiskIsFull) {
  LineLog log(path_);
  log.Write("before");
  AwaitLines(path_, 1, "before");
  {
    const FullDisk full(10);  // the limit cuts the next line in the middle
    for (int i = 0; i < 1000; ++i) log.Write("line " + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(std::filesystem::file_size(path_), 10u);
  }
  AwaitLines(path_, 1001, "line 999");
  const std::vector<std::string> lines = LinesOf(path_);
  for (size_t i = 1; i < lines.size(); ++i) EXPECT_EQ(lines[i], "line " + std::to_string(i - 1));
}

TEST_F(LineLogTest, Write_DropsTheOldestLinesBeyond8192_WhileTheDiskIsFull) {
  LineLog log(path_);
  {
    const FullDisk full(0);
    log.Write("first");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the log is writing this line
    for (int i = 0; i < 10'000; ++i) log.Write(std::to_string(i));
  }
  AwaitLines(path_, 8193, "9999");
  EXPECT_EQ(LinesOf(path_)[0], "first");
  EXPECT_EQ(LinesOf(path_)[1], "1808");
}

TEST_F(LineLogTest, Reopen_ContinuesInTheNewFile_WhenTheOldFileIsMovedFromAFullDisk) {
  std::filesystem::create_symlink("/dev/full", path_);
  LineLog log(path_);
  for (int i = 0; i < 100; ++i) log.Write("lost");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::filesystem::remove(path_);
  log.Reopen();
  for (int i = 0; i < 8'000; ++i) log.Write(std::to_string(i));
  AwaitLines(path_, 8'000, "7999");
  std::filesystem::remove(path_);
  log.Reopen();
  log.Write("again");
  AwaitLines(path_, 1, "again");
}

TEST_F(LineLogTest, Reopen_KeepsEveryLineInOrder_WhenTheFileWasNotMoved_OnAFullDisk) {
  LineLog log(path_);
  log.Write("before");
  AwaitLines(path_, 1, "before");
  {
    const FullDisk full(10);
    for (int i = 0; i < 100; ++i) log.Write("line " + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    log.Reopen();
    for (int i = 100; i < 200; ++i) log.Write("line " + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  AwaitLines(path_, 201, "line 199");
  EXPECT_EQ(LinesOf(path_)[1], "line 0");
}

TEST_F(LineLogTest, Destructor_EndsSoon_WhileTheDiskIsFull) {
  const auto begin = std::chrono::steady_clock::now();
  {
    LineLog log("/dev/full");
    for (int i = 0; i < 10'000; ++i) log.Write("line");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THROW(LineLog(testing::TempDir()), std::exception) << "a folder";
}

TEST(LogTest, WithoutControls_EscapesControlCharacters) {
  EXPECT_EQ(WithoutControls("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(WithoutControls(std::string_view("\x1b[31m\x7f\0", 7)), "\\x1b[31m\\x7f\\x00");
  EXPECT_EQ(WithoutControls("\xc2\x9b"), "\\u009b");             // the control character CSI
  EXPECT_EQ(WithoutControls("\xc2\xa0 é 日"), "\xc2\xa0 é 日");  // other characters stay as they are
  EXPECT_EQ(WithoutControls("\U0001f600\u07ff\uffff"), "\U0001f600\u07ff\uffff");
}

TEST(LogTest, WithoutControls_EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(WithoutControls("a\x9b"
                            "31mb"),
            "a\\x9b31mb")
      << "CSI where a terminal takes bytes for characters";
  EXPECT_EQ(WithoutControls("\xc2"), "\\xc2");
  EXPECT_EQ(WithoutControls("\xe6\x97x"), "\\xe6\\x97x");
  for (const char* bad :
       {"\xc0\x80", "\xe0\x80\x9b", "\xed\xa0\x80", "\xf0\x80\x80\x9b", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_EQ(WithoutControls(bad).substr(0, 2), "\\x") << "overlong, a surrogate, or beyond Unicode";
}

TEST(LogTest, LinesWithoutControls_KeepsLineEndsAndTabs) {
  EXPECT_EQ(LinesWithoutControls("a\tb\n\x1b]0;x\a\n"), "a\tb\n\\x1b]0;x\\x07\n");
  EXPECT_EQ(LinesWithoutControls("\n"), "\n");
  EXPECT_EQ(LinesWithoutControls("a\r"), "a\\r");
}

TEST(LogTest, LogNames_NestWithinAThread) {
  EXPECT_EQ(LogName::Current(), "");
  {
    const LogName outer("replica 1");
    {
      const LogName inner("replica 2");
      EXPECT_EQ(LogName::Current(), "replica 2");
      std::thread([] { EXPECT_EQ(LogName::Current(), "") << "other threads take it along by themselves"; }).join();
    }
    EXPECT_EQ(LogName::Current(), "replica 1");
  }
  EXPECT_EQ(LogName::Current(), "");
}

/// Returns the lines that were logged to standard error while `log` ran.
std::vector<Json> JsonLinesOf(const std::function<void()>& log) {
  testing::internal::CaptureStderr();
  log();
  std::istringstream said(testing::internal::GetCapturedStderr());
  std::vector<Json> lines;
  for (std::string line; std::getline(said, line);) {
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= 0x20 && c < 0x7f; })) << line;
    lines.push_back(Json::parse(line));
  }
  return lines;
}

TEST(LogTest, JsonFormat_MakesEachMessageAnObject_WithTheFieldsOfItsThread) {
  SetUpLog(LogLevel::kInfo);
  SetLogFormat(LogFormat::kJson);
  const std::vector<Json> lines = JsonLinesOf([] {
    spdlog::debug("too little");
    spdlog::warn("one\nline \x1b[31m \xff é\xc2\x9b\x7f");
    const LogName named("replica 1");
    const LogField of_request("request_id", "r\"1");
    {
      const LogField of_rank("rank", 3);
      spdlog::error("inner");
    }
    spdlog::info("outer");
  });
  SetLogFormat(LogFormat::kText);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["level"], "warn");
  EXPECT_EQ(lines[0]["message"], "one\nline \x1b[31m \xef\xbf\xbd é\xc2\x9b\x7f");
  EXPECT_FALSE(lines[0].contains("part") || lines[0].contains("request_id"));
  EXPECT_TRUE(
      std::regex_match(lines[0]["time"].get<std::string>(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")));
  EXPECT_EQ(lines[1]["part"], "replica 1");
  EXPECT_EQ(lines[1]["request_id"], "r\"1");
  EXPECT_EQ(lines[1]["rank"], 3);
  EXPECT_EQ(lines[2]["level"], "info");
  EXPECT_FALSE(lines[2].contains("rank"));
}

TEST(LogTest, LineOfProgram_MakesTextOrAJsonObject_AndKeepsAProgramsOwnObject) {
  SetLogFormat(LogFormat::kText);
  EXPECT_EQ(LineOfProgram("a\x1b"), "a\\x1b");
  SetLogFormat(LogFormat::kJson);
  const LogName named("replica 0");
  const Json own = Json::parse(LineOfProgram(R"({"level":"info","message":"é","rank":1})"));
  EXPECT_EQ(own, Json({{"level", "info"}, {"message", "é"}, {"rank", 1}}));
  for (const char* foreign : {"mpirun: no", "{\"cut", "[1]", "5", "", "{\"a\":1} and more"}) {
    const Json wrapped = Json::parse(LineOfProgram(foreign));
    EXPECT_EQ(wrapped["message"], foreign);
    EXPECT_EQ(wrapped["level"], "warn");
    EXPECT_EQ(wrapped["part"], "replica 0");
  }
  SetLogFormat(LogFormat::kText);
}

}  // namespace
}  // namespace quire
