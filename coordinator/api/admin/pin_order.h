#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/text/tokenizer.h"

namespace quire {

/// {"prompt": text or token ids, "ttl_seconds", "cache_salt", "api_key", "replica"}; the key is the one with which the
/// prompt's clients come.
struct PinOrder {
  std::vector<TokenId> tokens;
  std::optional<std::string> key;
  std::string cache_salt;
  double seconds = 600;
  int replica = 0;
};

/// Reads the body of /admin/pin. Touches nothing but its arguments. Throws ApiError, Error and Stopped.
PinOrder ReadPinOrder(const std::string& body, const Tokenizer& tokenizer, int num_replicas,
                      const std::stop_token& stop);

}  // namespace quire
