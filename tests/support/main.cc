// The main program of every test program. A test program holds the test files of a folder.
// `--file=coordinator/scheduler_test` runs the cases of one file; ctest has an entry for each file. A run in which all
// cases skip exits with 77, which ctest shows as skipped. Every skip's reason goes to the file QUIRE_SKIP_LOG, which
// tests/skips.py checks.
#include <fnmatch.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kSkipped = 77;

class SkipLog : public testing::EmptyTestEventListener {
 public:
  /// True when a global environment skipped all tests. gtest does not count these as skipped.
  bool skipped_all() const { return skipped_all_; }

  void OnTestStart(const testing::TestInfo&) override { in_test_ = true; }
  void OnTestEnd(const testing::TestInfo&) override { in_test_ = false; }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.skipped()) return;
    if (!in_test_) skipped_all_ = true;
    const char* path = std::getenv("QUIRE_SKIP_LOG");
    std::FILE* log = path != nullptr ? std::fopen(path, "a") : nullptr;
    if (log == nullptr) return;
    const std::string message = result.message(), path_of_file = result.file_name();
    std::fprintf(log, "%s\t%s\n", path_of_file.substr(path_of_file.rfind('/') + 1).c_str(),
                 message.substr(0, message.find('\n')).c_str());
    std::fclose(log);
  }

 private:
  bool in_test_ = false, skipped_all_ = false;
};

/// True when a case's full name matches one of the patterns, which are separated by colons: `*` matches any text, `?`
/// one character.
bool Fits(const std::string& name, const std::string& patterns) {
  std::istringstream all(patterns);
  for (std::string pattern; std::getline(all, pattern, ':');)
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0) return true;
  return false;
}

/// Narrows gtest's filter, "YES:YES-NO:NO", to the cases in tests/`file`.cc. Returns true if that file has any cases,
/// even if the filter excludes all of them.
bool KeepCasesOf(std::string_view file) {
  const std::string filter = GTEST_FLAG_GET(filter), end = "/" + std::string(file) + ".cc";
  const size_t minus = filter.find('-');
  const std::string wanted = minus == 0 ? "*" : filter.substr(0, minus);
  const std::string unwanted = minus == std::string::npos ? "" : filter.substr(minus + 1);
  std::string kept;
  bool any = false;
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *tests.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (!("/" + std::string(test.file())).ends_with(end)) continue;
      any = true;
      const std::string name = std::string(suite.name()) + "." + test.name();
      if (Fits(name, wanted) && !Fits(name, unwanted)) kept += name + ":";
    }
  }
  GTEST_FLAG_SET(filter, kept.empty() ? "-*" : kept);
  return any;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  constexpr std::string_view kFile = "--file=";
  for (const std::string_view argument : std::vector<std::string_view>(argv + 1, argv + argc)) {
    if (!argument.starts_with(kFile)) continue;
    if (KeepCasesOf(argument.substr(kFile.size()))) continue;
    std::fprintf(stderr, "no test of this program stands in tests/%s.cc\n", argument.substr(kFile.size()).data());
    return 2;
  }
  auto* const log = new SkipLog;
  testing::UnitTest::GetInstance()->listeners().Append(log);  // the listeners own the log
  const int status = RUN_ALL_TESTS();
  const int run = tests.test_to_run_count();
  const bool skipped = log->skipped_all() || (run > 0 && tests.skipped_test_count() == run);
  return status == 0 && skipped ? kSkipped : status;
}
