#pragma once

#include <cstddef>
#include <string>

namespace quire {

/// Makes the process end with a message when a page of a mapped file is missing. Without this call, SIGBUS kills the
/// process silently. The message on standard error begins with `who` and names the file; the exit status is 1. Call
/// this function after MPI_Init, because MPI installs signal handlers, too. Any other cause of SIGBUS ends the process
/// as before.
void ReportMappingErrors(const std::string& who);

/// Registers a mapping of MappedFile for the message of ReportMappingErrors. At most 512 mappings are registered at a
/// time; further ones are not.
void NoteMapping(const std::byte* begin, size_t size, const std::string& path);
void ForgetMapping(const std::byte* begin);

}  // namespace quire
