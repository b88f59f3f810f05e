#pragma once

namespace quire {

/// What a process that serves gives up at its start: files that it makes are its user's alone (umask 077), and neither
/// it nor what it starts gains privileges by running a program (PR_SET_NO_NEW_PRIVS; mpirun and ssh need none).
void HardenProcess();

/// For a process that holds keys: its memory reaches neither a core dump nor a debugger of the same user.
void ForbidCoreDumps();

}  // namespace quire
