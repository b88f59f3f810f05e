#include "tests/sim/active_mutant.h"

namespace quire::sim {

int active_mutant = 0;

}  // namespace quire::sim
