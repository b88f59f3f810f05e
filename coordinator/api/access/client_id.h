#pragma once

#include <string>

namespace quire {

/// Returns the client's name on a server without keys: a digest of the Authorization header; empty when there is no
/// such header.
std::string ClientId(const std::string& authorization);

/// Returns the salt of a request's cached blocks. Only requests with equal salts share blocks. Only requests of the
/// same client with the same `cache_salt` have equal salts.
std::string CacheSalt(const std::string& client, const std::string& cache_salt);

}  // namespace quire
