#include "coordinator/cache_events/cache_event.h"

#include "comm/base/json.h"

namespace quire {

namespace {

constexpr const char* kMedium = "GPU";

Json JsonOf(const CacheEvent& event, const CacheEventSource& source) {
  switch (event.kind) {
    case CacheEvent::Kind::kCleared:
      return {{"type", "AllBlocksCleared"}};
    case CacheEvent::Kind::kRemoved:
      return {{"type", "BlockRemoved"}, {"block_hashes", event.hashes}, {"medium", kMedium}};
    case CacheEvent::Kind::kStored:
      break;
  }
  const bool adapted = event.adapter > 0;
  const std::string* name = source.NameOf(event.adapter);
  return {{"type", "BlockStored"},
          {"block_hashes", event.hashes},
          {"parent_block_hash", event.parent ? Json(*event.parent) : Json()},
          {"token_ids", event.tokens},
          {"block_size", source.block_size},
          {"lora_id", adapted ? Json(event.adapter) : Json()},
          {"medium", kMedium},
          {"lora_name", name != nullptr ? Json(*name) : Json()}};
}

}  // namespace

const std::string* CacheEventSource::NameOf(int adapter) const {
  const auto listed = static_cast<size_t>(adapter) - 1;
  if (adapter > 0 && listed < adapters.size()) return &adapters[listed];
  const auto later = later_adapters.find(adapter);
  return later == later_adapters.end() ? nullptr : &later->second;
}

void CacheEventLog::OnFindable(const Sequence& sequence, int index) {
  const auto& contents = sequence.contents;
  const auto hash_of = [&](int block) { return contents.hashes[static_cast<size_t>(block)].low; };
  const auto parent = index > 0 ? std::optional(hash_of(index - 1)) : std::nullopt;
  const bool continues = !events_.empty() && events_.back().kind == CacheEvent::Kind::kStored && parent &&
                         events_.back().hashes.back() == *parent && events_.back().adapter == contents.adapter;
  if (!continues) events_.push_back({.kind = CacheEvent::Kind::kStored, .parent = parent, .adapter = contents.adapter});
  CacheEvent& event = events_.back();
  event.hashes.push_back(hash_of(index));
  const auto begin = sequence.tokens.begin() + index * block_size_;
  event.tokens.insert(event.tokens.end(), begin, begin + block_size_);
}

void CacheEventLog::OnRemoved(const BlockHash& hash) {
  if (events_.empty() || events_.back().kind != CacheEvent::Kind::kRemoved)
    events_.push_back({.kind = CacheEvent::Kind::kRemoved});
  events_.back().hashes.push_back(hash.low);
}

void CacheEventLog::OnCleared() {
  events_.clear();  // clearing the cache makes earlier events meaningless
  events_.push_back({.kind = CacheEvent::Kind::kCleared});
}

std::string EncodeCacheEvents(const std::vector<CacheEvent>& events, double unix_seconds,
                              const CacheEventSource& source) {
  Json list = Json::array();
  for (const CacheEvent& event : events) list.push_back(JsonOf(event, source));
  std::string bytes;
  Json::to_msgpack(Json::array({unix_seconds, std::move(list), source.replica}), bytes);
  return bytes;
}

}  // namespace quire
