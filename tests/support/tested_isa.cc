// Kernel tests run once per instruction set: QUIRE_ISA says which one, and a processor without it skips the whole file,
// so that no other table is taken for the one that is named.
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
