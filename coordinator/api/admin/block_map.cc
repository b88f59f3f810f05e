#include "coordinator/api/admin/block_map.h"

#include "comm/base/json.h"
#include "coordinator/api/admin/block_ranges.h"

namespace quire {

namespace {

/// Copies sequences' block tables, at most kMostEntries entries in all. Only counts the entries of a sequence that
/// would exceed this limit.
class Copier {
 public:
  explicit Copier(BlockMap& map) : map_(map) {}

  BlockMap::Owner OwnerOf(const Request& request, bool on_host) {
    BlockMap::Owner owner{request.id, request.name, request.client, {}};
    for (const Sequence& sequence : request.sequences) {
      const std::vector<BlockId>& blocks = on_host ? sequence.host_blocks : sequence.blocks;
      const std::vector<BlockId>& state = on_host ? sequence.host_state : sequence.state;
      if (blocks.empty()) continue;
      const size_t entries = blocks.size() + state.size();
      if (entries_ + entries > BlockMap::kMostEntries) {
        map_.not_listed += entries;
        continue;
      }
      entries_ += entries;
      owner.tables.push_back({sequence.choice, sequence.num_computed, blocks, state});
    }
    return owner;
  }

 private:
  BlockMap& map_;
  size_t entries_ = 0;
};

Json OwnerJson(const BlockMap::Owner& owner) {
  Json tables = Json::array();
  for (const BlockMap::Table& table : owner.tables) {
    tables.push_back({{"choice", table.choice},
                      {"computed_tokens", table.computed},
                      {"blocks", BlockRangesJson(table.blocks)},
                      {"state", BlockRangesJson(table.state)}});
  }
  return {{"request", owner.request},
          {"id", owner.name},
          {"client", owner.client.empty() ? Json() : Json(owner.client)},
          {"tables", std::move(tables)}};
}

Json OwnersJson(const std::vector<BlockMap::Owner>& owners) {
  Json list = Json::array();
  for (const BlockMap::Owner& owner : owners) list.push_back(OwnerJson(owner));
  return list;
}

}  // namespace

BlockMap TakeBlockMap(const Engine& engine, int replica) {
  const BlockManager& blocks = engine.blocks();
  BlockMap map;
  map.replica = replica;
  map.block_size = blocks.block_size();
  map.total = blocks.num_usable();
  map.free = blocks.num_free();
  map.host_total = blocks.host_pool().num_usable();
  map.host_used = blocks.host_pool().num_held();
  map.step = engine.stats().steps;
  Copier copier(map);
  for (const Request* request : engine.scheduler().running()) map.owners.push_back(copier.OwnerOf(*request, false));
  for (const Request* request : engine.scheduler().queue().All()) {
    if (request->swapped_out()) map.swapped.push_back(copier.OwnerOf(*request, true));
  }
  for (const PrefixPin& pin : blocks.pins().all()) map.pins.push_back({pin.id, pin.blocks});
  if (blocks.pool().num_cached() > 0) {
    map.cached.reserve(static_cast<size_t>(blocks.pool().num_cached()));
    for (BlockId id = 1; id <= map.total; ++id) {
      if (blocks.pool().ref_count(id) == 0 && blocks.pool().keeps(id)) map.cached.push_back(id);
    }
  }
  for (const auto& [id, checkpoint] : blocks.prefixes().checkpoints().all())
    map.kept_states.push_back({checkpoint.end, checkpoint.blocks});
  return map;
}

std::string BlockMapText(const BlockMap& map) {
  Json pins = Json::array();
  for (const BlockMap::Pin& pin : map.pins) pins.push_back({{"pin", pin.id}, {"blocks", BlockRangesJson(pin.blocks)}});
  Json kept_states = Json::array();
  for (const BlockMap::KeptState& state : map.kept_states)
    kept_states.push_back({{"behind", state.behind}, {"blocks", BlockRangesJson(state.blocks)}});
  return DumpJson({{"replica", map.replica},
                   {"step", map.step},
                   {"block_size", map.block_size},
                   {"total", map.total},
                   {"free", map.free},
                   {"host", {{"total", map.host_total}, {"used", map.host_used}}},
                   {"requests", OwnersJson(map.owners)},
                   {"pins", std::move(pins)},
                   {"cached", BlockRangesJson(map.cached)},
                   {"kept_states", std::move(kept_states)},
                   {"swapped_out", OwnersJson(map.swapped)},
                   {"not_listed", map.not_listed}});
}

}  // namespace quire
