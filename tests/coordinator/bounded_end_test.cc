#include "coordinator/server/bounded_end.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace quire {
namespace {

using std::chrono::seconds;

TEST(BoundedEndTest, BoundedEnd_EndsTheProcess_WhenASignalArrives) {
  for (const int number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          const BoundedEnd end(seconds(600));
          ::raise(number);
          ::_exit(0);
        },
        testing::ExitedWithCode(1), "did not stop");
  }
}

TEST(BoundedEndTest, BoundedEnd_EndsTheProcess_WhenItsTimeIsUp) {
  EXPECT_EXIT(
      {
        const BoundedEnd end(seconds(1));
        for (;;) ::pause();
      },
      testing::ExitedWithCode(1), "did not stop");
}

TEST(BoundedEndTest, SignalsAndTimeout_AreIgnored_AfterTheBoundedEndIsDestroyed) {
  EXPECT_EXIT(
      {
        { const BoundedEnd end(seconds(600)); }
        const unsigned left = ::alarm(0);
        ::raise(SIGTERM);
        ::raise(SIGINT);
        ::_exit(left == 0 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace quire
