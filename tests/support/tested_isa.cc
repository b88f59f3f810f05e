// Selects the instruction set of a kernel test, which runs once for each set. QUIRE_ISA names the set. On a processor
// without that set, the whole file is skipped. Otherwise the test would run the kernels of another set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "kernels/stream.h"

namespace {

class TestedIsa : public testing::Environment {
 public:
  void SetUp() override {
    const char* wanted = std::getenv("QUIRE_ISA");
    if (wanted != nullptr && std::strcmp(wanted, quire::kernels::CpuIsaName()) != 0)
      GTEST_SKIP() << "this processor has no " << wanted;
  }
};

[[maybe_unused]] const auto* const kTestedIsa = testing::AddGlobalTestEnvironment(new TestedIsa);

}  // namespace
