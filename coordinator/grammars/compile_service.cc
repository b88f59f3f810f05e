#include "coordinator/grammars/compile_service.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "comm/base/error.h"
#include "comm/base/process_hardening.h"
#include "comm/grammar/grammar_compiler.h"
#include "coordinator/grammars/frame_socket.h"

namespace quire {

namespace {

constexpr rlim_t kMostToCompile = 512u << 20;  // bytes that compiling may take in addition to the loaded vocabulary
constexpr size_t kMostProblemBytes = 2000;
constexpr int kNiceness = 5;  // lower priority than the ranks, which compute steps; grammars still get some time

/// Returns the size of this process's address space.
rlim_t BytesOfThisProcess() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void LimitMemory() {
  const rlim_t most = BytesOfThisProcess() + kMostToCompile;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) Fail("cannot limit the memory of compiling grammars");
}

std::string WhyNot(GrammarCompiler& compiler, const GrammarSource& source) {
  try {
    compiler.Compile(source);
    return "";
  } catch (const std::bad_alloc&) {
    return fmt::format("takes more than {} MiB to compile; make it smaller", kMostToCompile >> 20);
  } catch (const std::exception& error) {
    return std::string(error.what()).substr(0, kMostProblemBytes);
  }
}

}  // namespace

int CompileGrammars(int vocab_size) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // When memory runs out, the kernel should kill this process before workers. This line comes before HardenProcess(),
  // because a hardened process may not write to this file.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  HardenProcess();
  ForbidCoreDumps();
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  const FrameSocket socket(STDIN_FILENO);
  std::optional<Frame> frame = socket.Receive();
  if (!frame) return 1;
  GrammarCompiler compiler(std::get<Vocabulary>(Decode(*frame)), vocab_size);
  LimitMemory();
  for (uint64_t ticket = 0;;) {
    std::string problem;
    if (ticket != 0) problem = WhyNot(compiler, std::get<GrammarMessage>(Decode(*frame)).source);
    if (!socket.Send(Encode(GrammarReady{ticket, problem}, 0, 0))) return 0;
    frame = socket.Receive();
    if (!frame) return 0;
    ticket = std::get<GrammarMessage>(Decode(*frame)).ticket;
  }
}

}  // namespace quire
