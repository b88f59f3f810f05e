#include "coordinator/server/bounded_end.h"

#include <signal.h>
#include <unistd.h>

namespace quire {

namespace {

/// Ends the process with status 1. This function is a signal handler, so it makes only async-signal-safe calls.
void EndNow(int) {
  constexpr char kText[] = "ended with work that did not stop\n";
  (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  ::_exit(1);
}

}  // namespace

BoundedEnd::BoundedEnd(std::chrono::seconds limit) {
  for (const int number : {SIGTERM, SIGINT, SIGALRM}) ::signal(number, EndNow);
  ::alarm(static_cast<unsigned>(limit.count()));
}

BoundedEnd::~BoundedEnd() {
  ::alarm(0);
  for (const int number : {SIGTERM, SIGINT}) ::signal(number, SIG_IGN);
  ::signal(SIGALRM, SIG_DFL);
}

}  // namespace quire
