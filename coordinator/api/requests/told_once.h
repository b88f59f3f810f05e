#pragma once

#include <string>

namespace quire {

/// Logs `words` unless this key was logged before. The key's first word is its kind. Only the first 256 keys of each
/// kind are logged, because clients may invent any number of keys. The function is thread-safe.
void TellOnce(const std::string& key, const std::string& words);

/// Logs once that `what`, a part of requests, is left out of the prompt.
void TellLeftOut(const std::string& what);

}  // namespace quire
