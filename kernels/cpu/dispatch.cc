#include <cstdlib>
#include <cstring>

#include "kernels/cpu/isa/table.h"

namespace quire::kernels {

namespace {

bool Allowed(const char* name) {
  const char* wish = std::getenv("QUIRE_ISA");
  if (wish == nullptr || std::strcmp(wish, "avx512") == 0) return true;
  if (std::strcmp(wish, "avx2") == 0) return std::strcmp(name, "avx512") != 0;
  return false;
}

struct Choice {
  const char* name;
  const IsaTable* table;
};

Choice Choose() {
  if (Allowed("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return {"avx512", &avx512::Table()};
  }
  if (Allowed("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", &avx2::Table()};
  }
  return {"baseline", &baseline::Table()};
}

const Choice kChoice = Choose();

}  // namespace

const IsaTable& ActiveTable() { return *kChoice.table; }
const char* CpuIsaName() { return kChoice.name; }

}  // namespace quire::kernels
