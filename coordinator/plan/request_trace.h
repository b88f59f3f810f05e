#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// A recorded request, without its text.
struct TracedRequest {
  double seconds = 0;                 // arrival time since the trace's first request
  int prompt_tokens = 0, tokens = 0;  // lengths of prompt and answer
  // Hashes of the prompt's blocks of kTraceBlock tokens; the last block may be partial. Empty: the request shares no
  // prefix.
  std::vector<int64_t> hashes;
};

/// The number of tokens that one hash of a trace represents.
inline constexpr int kTraceBlock = 512;

/// Reads a trace in Mooncake's format: a JSON object on each line with timestamp (milliseconds), input_length,
/// output_length and optionally hash_ids. Ignores other members. Returns the requests in order of time. Throws Error
/// that names file and line.
std::vector<TracedRequest> ReadTrace(const std::string& path);

/// Returns made-up prompt tokens. Requests with equal hashes share these tokens; `number` is unique for each request.
std::vector<TokenId> TokensOf(const TracedRequest& request, int64_t number, int64_t vocab_size);

}  // namespace quire
