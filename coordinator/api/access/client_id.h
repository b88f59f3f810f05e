#pragma once

#include <string>

namespace quire {

/// The client's name where no keys are needed: a digest of the Authorization header; empty without one.
std::string ClientId(const std::string& authorization);

/// The salt of cached prefixes. Only requests with the same salt share them: those of one client and one `cache_salt`.
std::string CacheSalt(const std::string& client, const std::string& cache_salt);

}  // namespace quire
