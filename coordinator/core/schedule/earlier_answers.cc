#include "coordinator/core/schedule/earlier_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace quire {

namespace {

constexpr TokenId kEnd = -1;  // marks the end of every answer; no model samples this token
constexpr size_t kHashes = size_t{1} << 13;
constexpr int kMostCompared = 64;  // most positions that one search compares

/// Returns the key of the request's owner, under which answers are stored. The key contains the length of the client's
/// name, so that no client can choose a salt that yields another client's key.
std::string OwnerOf(const Request& request) {
  return fmt::format("{}:{}:{}{}", request.adapter, request.client.size(), request.client, request.cache_salt);
}

/// Returns a hash of the last kLeastCommon tokens.
size_t HashOf(std::span<const TokenId> tokens) {
  uint64_t hash = 0;
  for (const TokenId token : tokens.last(EarlierAnswers::kLeastCommon))
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
  return static_cast<size_t>(hash >> 40) % kHashes;
}

}  // namespace

size_t CommonTokens(std::span<const TokenId> tokens, size_t end, std::span<const TokenId> text, size_t most) {
  most = std::min({most, end, text.size()});
  size_t common = 0;
  while (common < most && tokens[end - 1 - common] == text[text.size() - 1 - common]) ++common;
  return common;
}

/// Appends a token. Adds its position to the index under the hash of the preceding tokens, unless the token is kEnd or
/// fewer than kLeastCommon tokens precede it.
void EarlierAnswers::Owner::Append(TokenId token) {
  const size_t place = tokens.size();
  tokens.push_back(token);
  earlier.push_back(-1);
  if (token == kEnd || place < kLeastCommon) return;
  int32_t& last = newest[HashOf(std::span(tokens).first(place))];
  earlier.back() = last;
  last = static_cast<int32_t>(place);
}

void EarlierAnswers::Owner::MakeIndex() {
  const std::vector<TokenId> kept = std::move(tokens);
  tokens.clear();
  earlier.clear();
  newest.assign(kHashes, -1);
  for (const TokenId token : kept) Append(token);
}

void EarlierAnswers::MakeIndex() {
  for (auto& [name, owner] : owners_) owner.MakeIndex();
}

void EarlierAnswers::Add(const Request& request, std::span<const TokenId> answer) {
  if (answer.size() <= kLeastCommon) return;  // an answer this short has no token after kLeastCommon tokens
  answer = answer.last(std::min(answer.size(), kMostTokens / 2 - 1));
  const auto [it, is_new] = owners_.try_emplace(OwnerOf(request));
  Owner& owner = it->second;
  owner.last_added = ++num_added_;
  if (is_new) {
    owner.client = request.client;
    owner.newest.assign(kHashes, -1);
  }
  if (owner.tokens.size() + answer.size() + 1 > kMostTokens) {
    owner.tokens.erase(owner.tokens.begin(), owner.tokens.end() - kMostTokens / 2);
    owner.MakeIndex();
  }
  for (const TokenId token : answer) owner.Append(token);
  owner.Append(kEnd);
  if (owners_.size() > kMostOwners) ForgetOne();
}

/// Forgets one owner of the client with the most owners: the owner whose last answer is oldest. So no client's salts
/// displace another client's answers.
void EarlierAnswers::ForgetOne() {
  std::map<std::string_view, int> owned;
  for (const auto& [name, owner] : owners_) ++owned[owner.client];
  owners_.erase(std::ranges::min_element(
      owners_, {}, [&](const auto& each) { return std::pair(-owned[each.second.client], each.second.last_added); }));
}

CommonPart EarlierAnswers::Find(const Request& request, std::span<const TokenId> text, size_t least,
                                size_t most) const {
  CommonPart best;
  const auto it = owners_.find(OwnerOf(request));
  if (it == owners_.end() || text.size() < kLeastCommon) return best;
  const Owner& owner = it->second;
  const std::span<const TokenId> tokens(owner.tokens);
  least = std::max(least, kLeastCommon);
  size_t place = 0;
  int32_t at = owner.newest[HashOf(text)];
  for (int compared = 0; at >= 0 && compared < kMostCompared && best.length < most; ++compared) {
    const size_t common = CommonTokens(tokens, static_cast<size_t>(at), text, most);
    if (common >= least && common > best.length) best.length = common, place = static_cast<size_t>(at);
    at = owner.earlier[static_cast<size_t>(at)];
  }
  if (best.length == 0) return best;
  const std::span<const TokenId> rest = tokens.subspan(place);
  best.follows = rest.first(static_cast<size_t>(std::ranges::find(rest, kEnd) - rest.begin()));
  return best;
}

size_t EarlierAnswers::bytes() const {
  size_t bytes = 0;
  for (const auto& [name, owner] : owners_) {
    bytes += name.capacity() + owner.client.capacity() + owner.tokens.capacity() * sizeof(TokenId) +
             (owner.newest.capacity() + owner.earlier.capacity()) * sizeof(int32_t);
  }
  return bytes;
}

}  // namespace quire
