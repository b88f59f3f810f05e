#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// The body of /admin/pin: {"prompt": text or token ids, "add_special_tokens", "name", "ttl_seconds", "cache_salt",
/// "api_key", "replica"}. "api_key" is the key that the prompt's clients use.
struct PinOrder {
  std::vector<TokenId> tokens;
  std::optional<std::string> key;
  std::string cache_salt;
  std::string name;  // empty: one is made
  double seconds = 600;
  int replica = 0;
};

/// Reads the body of /admin/pin. Uses only its arguments, so any thread may call it. Throws ApiError (for example when
/// the field "replica" is not below `num_replicas`), Error or Stopped.
PinOrder ReadPinOrder(const std::string& body, const Tokenizer& tokenizer, int num_replicas,
                      const std::stop_token& stop);

}  // namespace quire
