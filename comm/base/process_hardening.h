#pragma once

namespace quire {

/// Hardens a server process at its start. Only its user can access files that it creates (umask 077). Neither
/// it nor its children gain privileges by executing a program (PR_SET_NO_NEW_PRIVS); mpirun and ssh need
/// none.
void HardenProcess();

/// Excludes the memory of this process from core dumps, and hides it from debuggers of the same user. Call this in a
/// process that holds keys.
void ForbidCoreDumps();

}  // namespace quire
