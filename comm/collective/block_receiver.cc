#include "comm/collective/block_receiver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "comm/wire/messages.h"

namespace quire {

void BlockReceiver::Expect(uint64_t ticket, BlockMemory blocks, std::vector<BlockRuns> runs, DeviceCarrier* carrier) {
  const auto now = Clock::now();
  Expected expected{std::move(blocks), carrier, {}, {}, 0, now, now};
  for (BlockRuns& of_source : runs) {
    CheckRuns(of_source, expected.blocks);
    const bool done = of_source.empty();
    expected.sources.push_back({std::move(of_source), 1, 0, 0, done, {}});
  }
  expected_[ticket] = std::move(expected);
}

void BlockReceiver::End(uint64_t ticket, std::string problem) {
  const auto it = expected_.find(ticket);
  if (it == expected_.end()) return;
  for (const Source& source : it->second.sources) {  // closes the links of unfinished moves: nothing more is written
    std::erase_if(ways_, [&](const auto& way) { return source.moving() && way.second.WasAskedFor(source.move); });
  }
  ended_.push_back({ticket, it->second.bytes, std::move(problem)});
  expected_.erase(it);
}

void BlockReceiver::Stop(uint64_t ticket) { End(ticket, kCalledOff); }

std::string BlockReceiver::TakeOver(const BlockChunk& chunk, Expected& expected) const {
  const ChunkPlace& place = chunk.place;
  Source& source = expected.sources[place.giver];
  if (source.done) return fmt::format("rank {} sends more than it has", place.giver);
  if (place.number != source.next_chunk)
    return fmt::format("chunk {} of rank {} came instead of {}", place.number, place.giver, source.next_chunk);
  if (place.num_blocks > expected.blocks.size())
    return fmt::format("{} blocks come, with room for {}", place.num_blocks, expected.blocks.size());
  if (expected.num_blocks.value_or(place.num_blocks) != place.num_blocks)
    return fmt::format("{} blocks come, {} were said to", place.num_blocks, *expected.num_blocks);
  expected.num_blocks = place.num_blocks;
  ++source.next_chunk;
  if (place.num_blocks == 0) {
    source.done = true;
    return "";
  }
  if (expected.carrier != nullptr) return fmt::format("rank {} sends from its host's memory", place.giver);
  const int64_t of_block = BytesOf(source.runs), offset = source.offset;
  const auto bytes = static_cast<int64_t>(chunk.data.size());
  if (place.block != source.block || place.offset != static_cast<uint64_t>(offset) || bytes == 0 ||
      bytes > of_block - offset)
    return fmt::format("{} bytes at {} of block {} from rank {}, which gives {} and is at {} of block {}", bytes,
                       place.offset, place.block, place.giver, of_block, offset, source.block);
  const std::byte* from = chunk.data.data();
  for (const std::span<std::byte> part : PartsOf(source.runs, expected.blocks[source.block], offset, bytes)) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  expected.bytes += bytes;
  source.offset += bytes;
  if (source.offset == of_block) {
    source.offset = 0;
    source.done = ++source.block == place.num_blocks;
  }
  return "";
}

/// Handles a chunk that announces that its source sends all its bytes over a DeviceLink. Returns the reason why the
/// receiver refuses the announcement; empty when the move has begun.
std::string BlockReceiver::TakeAnnounced(const BlockChunk& chunk, const std::string& peer, Expected& expected) {
  const ChunkPlace& place = chunk.place;
  Source& source = expected.sources[place.giver];
  if (expected.carrier == nullptr)
    return fmt::format("rank {} sends from its device, which is not asked for", place.giver);
  if (source.done || source.move.asked() || place.number != 1 || chunk.data.empty() ||
      chunk.data.size() > kMostMeetingBytes)
    return fmt::format("rank {} announces what cannot come next", place.giver);
  if (place.num_blocks == 0 || place.num_blocks > expected.blocks.size() ||
      expected.num_blocks.value_or(place.num_blocks) != place.num_blocks)
    return fmt::format("{} blocks come, with room for {}", place.num_blocks, expected.blocks.size());
  expected.num_blocks = place.num_blocks;
  std::string meeting(reinterpret_cast<const char*>(chunk.data.data()), chunk.data.size());
  DeviceWay& way = ways_[peer];
  if (!way.is_open() || way.meeting() != meeting) way.Open(*expected.carrier, std::move(meeting), false);
  source.move = way.Move({expected.blocks.begin(), expected.blocks.begin() + place.num_blocks}, source.runs);
  return "";
}

bool BlockReceiver::moving() const {
  return std::ranges::any_of(expected_, [](const auto& each) { return each.second.moving(); });
}

/// Ends each transfer with moves over DeviceLinks when all its moves have finished, or when one of them has failed.
void BlockReceiver::FollowMoves() {
  std::vector<std::pair<uint64_t, std::string>> over;
  for (auto& [ticket, expected] : expected_) {
    if (!expected.moving()) continue;
    std::string problem;
    for (Source& source : expected.sources) {
      if (!source.moving()) continue;
      try {
        source.done = source.move.IsOver();
      } catch (const Error& error) {
        problem = error.what();
      }
      if (!source.done) continue;
      expected.bytes += BytesOf(source.runs) * *expected.num_blocks;
      expected.last_progress = Clock::now();
    }
    if (!problem.empty() || std::ranges::all_of(expected.sources, &Source::done)) over.emplace_back(ticket, problem);
  }
  for (auto& [ticket, problem] : over) End(ticket, std::move(problem));
}

/// Drops the peer's DeviceLink when an announced move is refused. The sender counts the refused move and this end does
/// not, so the two ends would number later moves differently.
void BlockReceiver::DropWay(const std::string& peer, const BlockChunk& chunk) {
  if (chunk.place.by_device) ways_.erase(peer);
}

/// Handles one received chunk. Ends its transfer when the transfer is complete or the chunk is refused. Discards chunks
/// of unknown transfers, of other epochs and of unknown givers; if such a chunk announces a move between devices, also
/// forgets the peer's DeviceLink. Ignores chunks from peers without the key of the rank that they claim to be.
void BlockReceiver::Accept(const ReceivedFrame& received) {
  const BlockChunk chunk = DecodeChunk(received.frame);
  const ChunkPlace& place = chunk.place;
  const auto it = expected_.find(place.ticket);
  if (!received.user.empty() && received.user != CurveUserId(static_cast<Rank>(place.giver))) return;
  if (it == expected_.end() || place.epoch != epoch_ || place.giver >= it->second.sources.size())
    return DropWay(received.peer, chunk);
  Expected& expected = it->second;
  expected.last_progress = Clock::now();
  std::string problem;
  try {
    problem = place.by_device ? TakeAnnounced(chunk, received.peer, expected) : TakeOver(chunk, expected);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!problem.empty()) DropWay(received.peer, chunk);
  const bool whole = std::ranges::all_of(expected.sources, &Source::done);
  if (!problem.empty() || whole) End(place.ticket, problem);
}

std::vector<BlockTransferEnd> BlockReceiver::Poll() {
  for (int i = 0; i < kChunksAtOnce; ++i) {
    const auto received = channel_.TryReceive();
    if (!received) break;
    try {
      Accept(*received);
    } catch (const Error&) {  // a broken chunk; the gap in the chunk numbers fails the transfer
    }
  }
  FollowMoves();
  const auto now = Clock::now();
  std::vector<std::pair<uint64_t, std::string>> late;
  for (const auto& [ticket, expected] : expected_) {
    const std::chrono::seconds patience = expected.moving() ? kDevicePatience : kLinkPatience;
    if (now - expected.last_progress >= patience)
      late.emplace_back(ticket, fmt::format("nothing came for {} s", patience.count()));
    else if (now - expected.begin >= kTransferPatience)
      late.emplace_back(ticket, "not all came within 60 s");
  }
  for (auto& [ticket, problem] : late) End(ticket, std::move(problem));
  return std::exchange(ended_, {});
}

}  // namespace quire
