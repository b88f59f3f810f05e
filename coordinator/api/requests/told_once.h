#pragma once

#include <string>

namespace quire {

/// Logs `words` unless the key was logged before. The key's first word says of what kind it is. Of each kind only the
/// first 256 keys are logged, because clients may invent more. Thread-safe.
void TellOnce(const std::string& key, const std::string& words);

/// Logs once that a part of requests is left out of the prompt, and why.
void TellLeftOut(const std::string& what);

}  // namespace quire
