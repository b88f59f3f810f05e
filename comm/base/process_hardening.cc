#include "comm/base/process_hardening.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

void HardenProcess() {
  ::umask(077);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("cannot give up new privileges: {}", std::strerror(errno));
}

void ForbidCoreDumps() {
  const rlimit none{0, 0};
  // When core_pattern is a pipe, the kernel ignores RLIMIT_CORE but obeys PR_SET_DUMPABLE.
  if (::setrlimit(RLIMIT_CORE, &none) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    Fail("cannot forbid core dumps: {}", std::strerror(errno));
}

}  // namespace quire
