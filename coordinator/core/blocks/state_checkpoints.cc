#include "coordinator/core/blocks/state_checkpoints.h"

#include "comm/base/error.h"

namespace quire {

void StateCheckpoints::Resize(int num_blocks) {
  QUIRE_CHECK(checkpoints_.empty(), "{} states are kept", checkpoints_.size());
  of_block_.assign(static_cast<size_t>(num_blocks), 0);
}

std::span<const BlockId> StateCheckpoints::Find(BlockId end) const {
  const CheckpointId id = At(end);
  if (id == 0) return {};
  return checkpoints_.at(id).blocks;
}

bool StateCheckpoints::Holds(BlockId block) const {
  const CheckpointId id = At(block);
  return id != 0 && checkpoints_.at(id).end != block;
}

CheckpointId StateCheckpoints::Keep(BlockId end, std::span<const BlockId> blocks) {
  if (At(end) != 0) return 0;
  const CheckpointId id = ++last_id_;
  At(end) = id;
  for (const BlockId block : blocks) {
    QUIRE_CHECK(At(block) == 0, "block {} is part of two states that are kept", block);
    At(block) = id;
    pool_.KeepContent(block);
  }
  checkpoints_[id] = {end, {blocks.begin(), blocks.end()}};
  return id;
}

void StateCheckpoints::Forget(CheckpointId id) {
  const auto it = checkpoints_.find(id);
  if (it == checkpoints_.end()) return;
  At(it->second.end) = 0;
  for (const BlockId block : it->second.blocks) {
    At(block) = 0;
    pool_.DropContent(block);
  }
  checkpoints_.erase(it);
}

void StateCheckpoints::ForgetOf(BlockId block) {
  if (At(block) != 0) Forget(At(block));
}

void StateCheckpoints::Clear() {
  while (!checkpoints_.empty()) Forget(checkpoints_.begin()->first);
}

void StateCheckpoints::CheckIntegrity() const {
  size_t named = 0;
  for (const auto& [id, checkpoint] : checkpoints_) {
    QUIRE_CHECK(At(checkpoint.end) == id, "block {} does not know of the state that is kept behind it", checkpoint.end);
    for (const BlockId block : checkpoint.blocks)
      QUIRE_CHECK(At(block) == id, "block {} does not know that it is part of a state", block);
    named += 1 + checkpoint.blocks.size();
  }
  for (const CheckpointId id : of_block_) named -= id != 0;
  QUIRE_CHECK(named == 0, "blocks name states that are not kept");
}

}  // namespace quire
