#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/isa/recurrent_table.h"
#include "kernels/cpu/isa/table.h"

namespace quire::kernels {

namespace {

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool HasAvxVnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;  // uses cpuid, because some compilers do not know this feature's name
  return HasAvx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

bool HasAvx512Vnni() { return HasAvx512() && __builtin_cpu_supports("avx512vnni"); }

/// Returns true when the processor has AMX's tiles and Linux grants them to this process. Linux grants them only on
/// request (Documentation/arch/x86/xstate.rst).
bool HasAvx512Amx() {
  constexpr unsigned kBFloats = 1u << 22, kTiles = 1u << 24, kBytes = 1u << 25, kAll = kBFloats | kTiles | kBytes;
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  return HasAvx512Vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAll) == kAll &&
         ::syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

struct Choice {
  const char* name;
  bool (*runs_here)();
  const IsaTable& (*table)();
  const RecurrentTable& (*recurrent)();
};

// The instruction sets, the best one first.
constexpr Choice kChoices[] = {
    {"avx512amx", HasAvx512Amx, avx512amx::Table, avx512::Recurrent},
    {"avx512vnni", HasAvx512Vnni, avx512vnni::Table, avx512::Recurrent},
    {"avx512", HasAvx512, avx512::Table, avx512::Recurrent},
    {"avxvnni", HasAvxVnni, avxvnni::Table, avx2::Recurrent},
    {"avx2", HasAvx2, avx2::Table, avx2::Recurrent},
    {"baseline", [] { return true; }, baseline::Table, baseline::Recurrent},
};

/// Returns the first instruction set that this processor supports. The search starts at QUIRE_ISA's set if that
/// variable is set. An unknown name means baseline.
const Choice& Choose() {
  const char* wish = std::getenv("QUIRE_ISA");
  const Choice* first = std::begin(kChoices);
  if (wish != nullptr)
    first = std::ranges::find_if(kChoices, [&](const Choice& c) { return !std::strcmp(c.name, wish); });
  if (first == std::end(kChoices)) first = std::end(kChoices) - 1;
  return *std::find_if(first, std::end(kChoices), [](const Choice& choice) { return choice.runs_here(); });
}

const Choice& kChoice = Choose();

}  // namespace

const IsaTable& ActiveTable() { return kChoice.table(); }
const RecurrentTable& ActiveRecurrentTable() { return kChoice.recurrent(); }
const char* CpuIsaName() { return kChoice.name; }

}  // namespace quire::kernels
