#pragma once

#include <cstddef>
#include <string>

namespace quire {

/// Lets the process end with a message when a page of a mapped file cannot be had any more: the system's word for that
/// is the signal SIGBUS, which otherwise kills without one. The message, on the error stream, begins with `who` and
/// names the file; the exit status is 1. To be called once MPI is up, which has its own mind about signals. Whatever
/// else raises the signal ends the process as before.
void ReportMappingErrors(const std::string& who);

/// What MappedFile maps, for that message. Beyond some hundred files names are left out of it.
void NoteMapping(const std::byte* begin, size_t size, const std::string& path);
void ForgetMapping(const std::byte* begin);

}  // namespace quire
