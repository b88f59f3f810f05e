#pragma once

#include <string>

namespace quire {

/// Who asks where no keys are needed: a digest of the Authorization header; empty for none.
std::string ClientId(const std::string& authorization);

/// What separates cached prefixes: a client's are its own, and it may separate them further.
std::string CacheSalt(const std::string& client, const std::string& cache_salt);

}  // namespace quire
