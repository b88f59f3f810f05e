#include "coordinator/api/admin/block_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace quire {

namespace {

Json DeviceJson(const BlockManager& blocks) {
  return {{"total", blocks.num_usable()},
          {"free", blocks.num_free()},
          {"used", blocks.pool().num_held()},
          {"cached", blocks.pool().num_cached()}};
}

/// Owners by block: table entries of running sequences, and pins.
std::map<BlockId, Json> Owners(const Engine& engine) {
  std::map<BlockId, Json> owners;
  for (const Request* request : engine.scheduler().running()) {
    for (const Sequence& sequence : request->sequences) {
      for (size_t i = 0; i < sequence.blocks.size(); ++i) {
        if (sequence.blocks[i] == kNullBlock) continue;
        owners[sequence.blocks[i]].push_back({{"request", request->id}, {"choice", sequence.choice}, {"index", i}});
      }
    }
  }
  for (const auto& pin : engine.blocks().pins()) {
    for (const BlockId block : pin.blocks) owners[block].push_back({{"pin", pin.id}});
  }
  return owners;
}

Json HashJson(const std::optional<BlockHash>& hash) {
  return hash ? Json(fmt::format("{:016x}{:016x}", hash->high, hash->low)) : Json();
}

Json SwappedOut(const Engine& engine) {
  Json list = Json::array();
  for (const Request* request : engine.scheduler().queue().All()) {
    if (!request->swapped_out()) continue;
    list.push_back({{"request", request->id}, {"blocks", request->num_swapped_blocks}});
  }
  return list;
}

}  // namespace

Json PoolsJson(const Engine& engine) {
  const BlockPool& host = engine.blocks().host_pool();
  return {{"device", DeviceJson(engine.blocks())},
          {"host", {{"total", host.num_usable()}, {"free", host.num_free()}, {"used", host.num_held()}}},
          {"block_size", engine.blocks().block_size()}};
}

Json BlocksJson(const Engine& engine) {
  const BlockManager& blocks = engine.blocks();
  std::map<BlockId, Json> owners = Owners(engine);
  int64_t filled = 0, not_listed = 0;
  Json list = Json::array();
  for (const bool in_use : {true, false}) {
    for (BlockId id = 1; id <= blocks.num_usable(); ++id) {
      const int references = blocks.pool().ref_count(id);
      if ((references > 0) != in_use) continue;
      if (in_use) filled += blocks.filled(id);
      const auto hash = blocks.prefix_caching() ? blocks.cache().HashOf(id) : std::nullopt;
      if (!in_use && !hash) continue;
      if (list.size() >= kMaxListedBlocks) {
        ++not_listed;
        continue;
      }
      const auto owner = owners.find(id);
      list.push_back({{"id", id},
                      {"ref_count", references},
                      {"filled", blocks.filled(id)},
                      {"hash", HashJson(hash)},
                      {"age_steps", blocks.age(id)},
                      {"owners", owner == owners.end() ? Json::array() : std::move(owner->second)}});
    }
  }
  Json out = DeviceJson(blocks);
  const int64_t slots = int64_t{blocks.pool().num_held()} * blocks.block_size();
  out["block_size"] = blocks.block_size();
  out["waste"] = slots == 0 ? 0.0 : 1.0 - static_cast<double>(filled) / static_cast<double>(slots);
  out["host"] = PoolsJson(engine)["host"];
  out["swapped_out"] = SwappedOut(engine);
  out["not_listed"] = not_listed;
  out["blocks"] = std::move(list);
  return out;
}

}  // namespace quire
