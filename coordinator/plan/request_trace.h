#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// A request that somebody once sent, without its words.
struct TracedRequest {
  double seconds = 0;                 // when it came, from the trace's beginning on
  int prompt_tokens = 0, tokens = 0;  // of the prompt, and of the answer
  std::vector<int64_t> hashes;  // of its blocks of kTraceBlock tokens, the last one in part; none: like no other's
};

/// Tokens that a hash of a trace stands for.
inline constexpr int kTraceBlock = 512;

/// Reads a trace as Mooncake publishes them, a JSON object a line: timestamp (milliseconds), input_length,
/// output_length and perhaps hash_ids; other members are passed over. In the order of their times. Throws Error with
/// the place of what is wrong.
std::vector<TracedRequest> ReadTrace(const std::string& path);

/// Tokens of a prompt that shares with others what their hashes say; `number` is the request's own.
std::vector<TokenId> TokensOf(const TracedRequest& request, int64_t number, int64_t vocab_size);

}  // namespace quire
