#pragma once

#include <string>

namespace quire {

/// Logs `words` unless the key was logged before. The first word of the key is its kind. Only the first 256 keys of
/// each kind are logged, because clients may invent more. Thread-safe.
void TellOnce(const std::string& key, const std::string& words);

/// Logs once that a part of requests is left out of the prompt, and why.
void TellLeftOut(const std::string& what);

}  // namespace quire
