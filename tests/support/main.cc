// The main program of every test file. A skip is seen: a file whose cases all skip exits with 77, which ctest shows as
// skipped, and every reason goes to the file that QUIRE_SKIP_LOG names, where tests/skips.py judges it.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr int kSkipped = 77;

class SkipLog : public testing::EmptyTestEventListener {
 public:
  /// A global environment skipped all tests, which then do not count as skipped.
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

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  auto* const log = new SkipLog;
  testing::UnitTest::GetInstance()->listeners().Append(log);  // which owns it
  const int status = RUN_ALL_TESTS();
  const int run = tests.test_to_run_count();
  const bool skipped = log->skipped_all() || (run > 0 && tests.skipped_test_count() == run);
  return status == 0 && skipped ? kSkipped : status;
}
