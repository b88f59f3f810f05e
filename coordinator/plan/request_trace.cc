#include "coordinator/plan/request_trace.h"

#include <algorithm>
#include <fstream>

#include "comm/base/error.h"
#include "comm/base/json.h"

namespace quire {

namespace {

constexpr size_t kMostRequests = 1'000'000;
constexpr int64_t kMostTokens = 1 << 22;  // tokens of a prompt or an answer; no model takes more
constexpr int64_t kMostMillis = int64_t{1} << 40;

int64_t CountOf(const Json& line, const char* name, int64_t least, int64_t most, const std::string& place) {
  const auto value = line.find(name);
  if (value == line.end()) Fail("{}: {} is missing", place, name);
  if (!value->is_number() || !(value->get<double>() >= static_cast<double>(least)) ||
      !(value->get<double>() <= static_cast<double>(most))) {
    Fail("{}: {} must be a number from {} to {}", place, name, least, most);
  }
  return value->get<int64_t>();
}

TracedRequest RequestOf(const Json& line, const std::string& place) {
  if (!line.is_object()) Fail("{}: is no object", place);
  TracedRequest request;
  request.seconds = static_cast<double>(CountOf(line, "timestamp", 0, kMostMillis, place)) / 1000;
  request.prompt_tokens = static_cast<int>(CountOf(line, "input_length", 1, kMostTokens, place));
  request.tokens = static_cast<int>(CountOf(line, "output_length", 1, kMostTokens, place));
  const auto hashes = line.find("hash_ids");
  if (hashes == line.end()) return request;
  const bool whole = hashes->is_array() && std::ranges::all_of(*hashes, &Json::is_number_integer);
  const int64_t blocks = (int64_t{request.prompt_tokens} + kTraceBlock - 1) / kTraceBlock;
  if (!whole || static_cast<int64_t>(hashes->size()) != blocks)
    Fail("{}: hash_ids must be a number for each {} tokens of the prompt: {}", place, kTraceBlock, blocks);
  request.hashes = hashes->get<std::vector<int64_t>>();
  return request;
}

}  // namespace

std::vector<TracedRequest> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) Fail("{} cannot be read", path);
  std::vector<TracedRequest> requests;
  std::string text;
  for (size_t number = 1; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = fmt::format("{}:{}", path, number);
    if (requests.size() == kMostRequests) Fail("{}: at most {} requests are taken", place, kMostRequests);
    requests.push_back(RequestOf(ParseJson(text, place), place));
  }
  if (requests.empty()) Fail("{} holds no requests", path);
  std::ranges::stable_sort(requests, {}, &TracedRequest::seconds);
  const double first = requests.front().seconds;
  for (TracedRequest& request : requests) request.seconds -= first;
  return requests;
}

std::vector<TokenId> TokensOf(const TracedRequest& request, int64_t number, int64_t vocab_size) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;  // spreads neighbouring numbers far apart
  std::vector<TokenId> tokens(static_cast<size_t>(request.prompt_tokens));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t block = i / kTraceBlock;
    // A block's hash covers the text before the block, too, so blocks after different prefixes never get equal tokens.
    const uint64_t of =
        request.hashes.empty() ? ~static_cast<uint64_t>(number) : static_cast<uint64_t>(request.hashes[block]);
    tokens[i] = static_cast<TokenId>(((of * kTraceBlock + i % kTraceBlock + 1) * kMix >> 20) %
                                     static_cast<uint64_t>(vocab_size));
  }
  return tokens;
}

}  // namespace quire
