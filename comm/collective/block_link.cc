#include "comm/collective/block_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "comm/wire/messages.h"

namespace quire {

namespace {

constexpr int64_t kChunkBytes = 256 << 10;
// What a Poll sends at the most: whoever calls it looks at other things, too.
constexpr int kChunksAtOnce = 64;
constexpr auto kLinkRest = 2 * kTransferPatience;
constexpr const char* kStopped = "called off";

/// Calls take(part) for what lies at [offset, offset + bytes) of what goes of a block, piece by piece, in order.
template <class Take>
void ForEachPart(const BlockRuns& runs, std::span<std::byte> block, int64_t offset, int64_t bytes, Take take) {
  for (const BlockRun& run : runs) {
    if (bytes == 0) return;
    if (offset >= run.bytes) {
      offset -= run.bytes;
      continue;
    }
    const int64_t part = std::min(bytes, run.bytes - offset);
    take(block.subspan(static_cast<size_t>(run.at + offset), static_cast<size_t>(part)));
    bytes -= part;
    offset = 0;
  }
}

/// Runs are made from what the other side says of itself, and blocks are this side's own.
void CheckRuns(const BlockRuns& runs, const BlockMemory& blocks) {
  for (const std::span<std::byte> block : blocks) {
    const auto size = static_cast<int64_t>(block.size());
    for (const BlockRun& run : runs) {
      QUIRE_CHECK(run.at >= 0 && run.bytes > 0 && run.at <= size && run.bytes <= size - run.at,
                  "{} bytes at {} of a block of {}", run.bytes, run.at, size);
    }
  }
}

}  // namespace

void BlockReceiver::Expect(uint64_t ticket, BlockMemory blocks, std::vector<BlockRuns> runs) {
  const auto now = Clock::now();
  Expected expected{std::move(blocks), {}, {}, 0, now, now};
  for (BlockRuns& of_source : runs) {
    CheckRuns(of_source, expected.blocks);
    const bool done = of_source.empty();
    expected.sources.push_back({std::move(of_source), 1, 0, 0, done});
  }
  expected_[ticket] = std::move(expected);
}

void BlockReceiver::End(uint64_t ticket, std::string problem) {
  const auto it = expected_.find(ticket);
  if (it == expected_.end()) return;
  ended_.push_back({ticket, it->second.bytes, std::move(problem)});
  expected_.erase(it);
}

void BlockReceiver::Stop(uint64_t ticket) { End(ticket, kStopped); }

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
  const int64_t of_block = BytesOf(source.runs), offset = source.offset;
  const auto bytes = static_cast<int64_t>(chunk.data.size());
  if (place.block != source.block || place.offset != static_cast<uint64_t>(offset) || bytes == 0 ||
      bytes > of_block - offset)
    return fmt::format("{} bytes at {} of block {} from rank {}, which gives {} and is at {} of block {}", bytes,
                       place.offset, place.block, place.giver, of_block, offset, source.block);
  const std::byte* from = chunk.data.data();
  ForEachPart(source.runs, expected.blocks[source.block], offset, bytes, [&](std::span<std::byte> part) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  });
  expected.bytes += bytes;
  source.offset += bytes;
  if (source.offset == of_block) {
    source.offset = 0;
    source.done = ++source.block == place.num_blocks;
  }
  return "";
}

/// Chunks of transfers that nobody expects (any more) are passed over, and so are those of other epochs, and of peers
/// whose key is not that of the rank that they say they are.
void BlockReceiver::Accept(const ReceivedFrame& received) {
  const BlockChunk chunk = DecodeChunk(received.frame);
  const ChunkPlace& place = chunk.place;
  const auto it = expected_.find(place.ticket);
  if (it == expected_.end() || place.epoch != epoch_ || place.giver >= it->second.sources.size()) return;
  if (!received.user.empty() && received.user != CurveUserId(static_cast<Rank>(place.giver))) return;
  Expected& expected = it->second;
  expected.last_progress = Clock::now();
  const std::string problem = TakeOver(chunk, expected);
  const bool whole = std::ranges::all_of(expected.sources, &Source::done);
  if (!problem.empty() || whole) End(place.ticket, problem);
}

std::vector<BlockTransferEnd> BlockReceiver::Poll() {
  for (int i = 0; i < kChunksAtOnce; ++i) {
    const auto received = channel_.TryReceive();
    if (!received) break;
    try {
      Accept(*received);
    } catch (const Error&) {  // a broken chunk: its number will be missing
    }
  }
  const auto now = Clock::now();
  std::vector<std::pair<uint64_t, const char*>> late;
  for (const auto& [ticket, expected] : expected_) {
    if (now - expected.last_progress >= kLinkPatience)
      late.emplace_back(ticket, "nothing came for 5 s");
    else if (now - expected.begin >= kTransferPatience)
      late.emplace_back(ticket, "not all came within 60 s");
  }
  for (const auto& [ticket, problem] : late) End(ticket, problem);
  return std::exchange(ended_, {});
}

bool BlockSender::Outgoing::over() const { return !problem.empty() || std::ranges::all_of(streams, &Stream::done); }

void BlockSender::Send(uint64_t ticket, EpochId epoch, BlockMemory blocks, std::vector<BlockDestination> destinations) {
  const auto now = Clock::now();
  Outgoing outgoing{ticket, epoch, std::move(blocks), {}, 0, now, ""};
  for (BlockDestination& to : destinations) {
    CheckRuns(to.runs, outgoing.blocks);
    if (to.runs.empty()) continue;
    Stream& stream = outgoing.streams.emplace_back();
    stream.of_block = BytesOf(to.runs);
    stream.to = std::move(to);
    stream.last_progress = now;
  }
  outgoing_.push_back(std::move(outgoing));
}

void BlockSender::Stop(uint64_t ticket) {
  for (Outgoing& outgoing : outgoing_) {
    if (outgoing.ticket == ticket) outgoing.problem = kStopped;
  }
}

Channel& BlockSender::LinkTo(const BlockDestination& to) {
  const auto now = Clock::now();
  auto link = links_.find(to.endpoint);
  if (link == links_.end()) {
    std::erase_if(links_, [&](const auto& old) { return now - old.second.last_use > kLinkRest; });
    const bool local = to.endpoint.starts_with("ipc://");
    if (!local && to.key.empty() != (self_.keys == nullptr))
      Fail("{}: one of both workers has keys, and the other one has none", to.endpoint);
    Channel channel = Channel::Connect(to.endpoint, self_.identity, local ? nullptr : self_.keys, to.key);
    link = links_.emplace(to.endpoint, Link{std::move(channel), now}).first;
  }
  link->second.last_use = now;
  return link->second.channel;
}

/// What goes next; the frame is kept until the link has taken it.
void BlockSender::MakeNext(const Outgoing& outgoing, Stream& stream) const {
  const auto num_blocks = static_cast<uint32_t>(outgoing.blocks.size());
  std::vector<std::span<const std::byte>> parts;
  if (num_blocks > 0) {
    stream.next_bytes = std::min(kChunkBytes, stream.of_block - stream.offset);
    ForEachPart(stream.to.runs, outgoing.blocks[stream.block], stream.offset, stream.next_bytes,
                [&](std::span<std::byte> part) { parts.emplace_back(part); });
  }
  stream.next = EncodeChunk({outgoing.ticket, stream.next_number, outgoing.epoch, static_cast<uint32_t>(self_.rank),
                             num_blocks, stream.block, static_cast<uint64_t>(stream.offset)},
                            parts);
}

/// False when the link is full.
bool BlockSender::SendChunk(Outgoing& outgoing, Stream& stream) {
  if (!stream.next) MakeNext(outgoing, stream);
  if (!LinkTo(stream.to).Send("", *stream.next)) return false;
  stream.next.reset();
  ++stream.next_number;
  outgoing.bytes += stream.next_bytes;
  stream.offset += stream.next_bytes;
  if (stream.offset == stream.of_block) {
    stream.offset = 0;
    ++stream.block;
  }
  stream.done = stream.block >= outgoing.blocks.size();
  stream.last_progress = Clock::now();
  return true;
}

/// A chunk on each of its streams that takes one. False when none did.
bool BlockSender::Advance(Outgoing& outgoing) {
  bool moved = false;
  for (Stream& stream : outgoing.streams) {
    if (stream.done || !outgoing.problem.empty()) continue;
    try {
      moved |= SendChunk(outgoing, stream);
    } catch (const Error& error) {
      outgoing.problem = error.what();
    }
  }
  return moved;
}

void BlockSender::GiveUpLate(Outgoing& outgoing) {
  const auto now = Clock::now();
  for (const Stream& stream : outgoing.streams) {
    if (stream.done || !outgoing.problem.empty()) continue;
    if (now - stream.last_progress >= kLinkPatience) {
      outgoing.problem = fmt::format("{} took nothing for 5 s", stream.to.endpoint);
      links_.erase(stream.to.endpoint);  // what it holds is of no use to anybody
    } else if (now - outgoing.begin >= kTransferPatience) {
      outgoing.problem = "not all went within 60 s";
    }
  }
}

std::vector<BlockTransferEnd> BlockSender::Poll() {
  bool moved = true;
  for (int round = 0; moved && round < kChunksAtOnce; ++round) {
    moved = false;
    for (Outgoing& outgoing : outgoing_) moved |= Advance(outgoing);
  }
  std::vector<BlockTransferEnd> ended;
  for (Outgoing& outgoing : outgoing_) {
    if (!outgoing.over()) GiveUpLate(outgoing);
    if (outgoing.over()) ended.push_back({outgoing.ticket, outgoing.bytes, outgoing.problem});
  }
  std::erase_if(outgoing_, [](const Outgoing& outgoing) { return outgoing.over(); });
  return ended;
}

}  // namespace quire
