#pragma once

namespace quire::sim {

/// The number of the planted bug that is active in the mutated build of the core (mutants.py); 0: none.
extern int active_mutant;

}  // namespace quire::sim
