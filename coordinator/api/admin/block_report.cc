#include "coordinator/api/admin/block_report.h"

#include <fmt/format.h>

#include <map>

#include "comm/base/json.h"
#include "coordinator/api/admin/replica_report.h"

namespace quire {

namespace {

std::vector<std::pair<BlockId, BlockList::Owner>> OwnersIn(const Engine& engine) {
  std::vector<std::pair<BlockId, BlockList::Owner>> owners;
  for (const Request* request : engine.scheduler().running()) {
    for (const Sequence& sequence : request->sequences) {
      for (size_t i = 0; i < sequence.blocks.size(); ++i) {
        if (sequence.blocks[i] == kNullBlock) continue;
        owners.push_back({sequence.blocks[i], {.request = request->id, .choice = sequence.choice, .index = i}});
      }
      const auto add_state = [&](const std::vector<BlockId>& state) {
        for (size_t i = 0; i < state.size(); ++i)
          owners.push_back(
              {state[i], {.request = request->id, .choice = sequence.choice, .index = i, .is_state = true}});
      };
      add_state(sequence.state);
      for (const ComingCheckpoint& coming : sequence.coming) add_state(coming.blocks);
    }
  }
  for (const auto& pin : engine.blocks().pins().all()) {
    for (const BlockId block : pin.blocks) owners.push_back({block, {.pin = pin.id}});
  }
  return owners;
}

Json OwnerJson(const BlockList::Owner& owner) {
  if (owner.request == 0) return {{"pin", owner.pin}};
  return {{"request", owner.request}, {"choice", owner.choice}, {owner.is_state ? "state" : "index", owner.index}};
}

/// Finds, for each block that is part of a recurrent state, the cached block that ends where the state was saved.
class StateParts {
 public:
  StateParts(const Engine& engine, const std::vector<std::pair<BlockId, BlockList::Owner>>& owners) {
    if (engine.blocks().states().num_blocks() == 0) return;
    for (const auto& [block, owner] : owners) {
      if (owner.is_state) parts_[block];
    }
    for (const auto& [id, checkpoint] : engine.blocks().prefixes().checkpoints().all()) {
      for (const BlockId block : checkpoint.blocks) parts_[block] = checkpoint.end;
    }
  }
  /// Returns the cached block after which this block's state was saved. Returns a pointer to the null block for a
  /// running sequence's state, and a null pointer for a block that is part of no state.
  const BlockId* Find(BlockId block) const {
    const auto part = parts_.find(block);
    return part == parts_.end() ? nullptr : &part->second;
  }

 private:
  std::map<BlockId, BlockId> parts_;
};

Json HashJson(const std::optional<BlockHash>& hash) {
  return hash ? Json(fmt::format("{:016x}{:016x}", hash->high, hash->low)) : Json();
}

}  // namespace

BlockList TakeBlocks(const Engine& engine) {
  const BlockManager& blocks = engine.blocks();
  BlockList list;
  list.device = CountsOf(blocks.pool());
  list.host = CountsOf(blocks.host_pool());
  list.block_size = blocks.block_size();
  list.blocks_per_state = blocks.states().num_blocks();
  list.owners = OwnersIn(engine);
  const StateParts parts(engine, list.owners);
  for (const bool in_use : {true, false}) {
    for (BlockId id = 1; id <= blocks.num_usable(); ++id) {
      const int references = blocks.pool().ref_count(id);
      if ((references > 0) != in_use) continue;
      const BlockId* kept_behind = parts.Find(id);
      if (in_use) list.filled += blocks.fill().tokens(id);
      list.held_states += in_use && kept_behind != nullptr;
      const auto hash = blocks.prefixes().enabled() ? blocks.prefixes().cache().HashOf(id) : std::nullopt;
      if (!in_use && !hash && kept_behind == nullptr) continue;
      if (list.blocks.size() < BlockList::kMostBlocks) {
        list.blocks.push_back({.id = id,
                               .ref_count = references,
                               .filled = blocks.fill().tokens(id),
                               .hash = hash,
                               .age_steps = blocks.fill().age(id),
                               .is_state = kept_behind != nullptr,
                               .kept_behind = kept_behind != nullptr ? *kept_behind : kNullBlock});
      } else {
        ++list.not_listed;
      }
    }
  }
  for (const Request* request : engine.scheduler().queue().All()) {
    if (request->swapped_out()) list.swapped_out.emplace_back(request->id, request->num_swapped_blocks);
  }
  return list;
}

std::string BlocksText(const BlockList& list) {
  std::map<BlockId, Json> owners;
  for (const auto& [block, owner] : list.owners) owners[block].push_back(OwnerJson(owner));
  Json blocks = Json::array(), swapped_out = Json::array();
  for (const BlockList::Block& block : list.blocks) {
    const auto owner = owners.find(block.id);
    blocks.push_back({{"id", block.id},
                      {"kind", block.is_state ? "state" : "tokens"},
                      {"kept_behind", block.kept_behind == kNullBlock ? Json() : Json(block.kept_behind)},
                      {"ref_count", block.ref_count},
                      {"filled", block.filled},
                      {"hash", HashJson(block.hash)},
                      {"age_steps", block.age_steps},
                      {"owners", owner == owners.end() ? Json::array() : std::move(owner->second)}});
  }
  for (const auto& [request, count] : list.swapped_out)
    swapped_out.push_back({{"request", request}, {"blocks", count}});
  const Json pools = PoolsJson(list.device, list.host, list.block_size, list.blocks_per_state);
  Json out = pools["device"];
  const int64_t slots = (list.device.held - list.held_states) * list.block_size;
  out["block_size"] = list.block_size;
  out["blocks_per_state"] = list.blocks_per_state;
  out["waste"] = slots == 0 ? 0.0 : 1.0 - static_cast<double>(list.filled) / static_cast<double>(slots);
  out["host"] = pools["host"];
  out["swapped_out"] = std::move(swapped_out);
  out["not_listed"] = list.not_listed;
  out["blocks"] = std::move(blocks);
  return DumpJson(out);
}

}  // namespace quire
