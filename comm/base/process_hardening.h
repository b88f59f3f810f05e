#pragma once

namespace quire {

/// Hardens a server process at its start. Files that the process creates are accessible to its user only (umask 077).
/// Neither the process nor its children gain privileges by running a program (PR_SET_NO_NEW_PRIVS; mpirun and ssh need
/// none).
void HardenProcess();

/// For a process that holds keys: keeps its memory out of core dumps and away from debuggers of the same user.
void ForbidCoreDumps();

}  // namespace quire
