#pragma once

#include <string>

namespace quire {

/// Logs the words unless something was logged under that key before; of keys that are clients' the first few hundred
/// are told. Any thread.
void TellOnce(const std::string& key, const std::string& words);

}  // namespace quire
