#include "comm/collective/block_sender.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "comm/wire/messages.h"

namespace quire {

namespace {

constexpr int64_t kChunkBytes = 256 << 10;
constexpr auto kLinkRest = 2 * kTransferPatience;

}  // namespace

bool BlockSender::Outgoing::over() const { return !problem.empty() || std::ranges::all_of(streams, &Stream::done); }

void BlockSender::Send(uint64_t ticket, EpochId epoch, BlockMemory blocks, std::vector<BlockDestination> destinations,
                       DeviceCarrier* carrier) {
  const auto now = Clock::now();
  if (blocks.empty()) carrier = nullptr;  // a message without blocks needs no device
  Outgoing outgoing{ticket, epoch, std::move(blocks), carrier, {}, 0, now, ""};
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
    if (outgoing.ticket == ticket) outgoing.problem = kCalledOff;
  }
}

BlockSender::Link& BlockSender::LinkTo(const BlockDestination& to) {
  const auto now = Clock::now();
  auto link = links_.find(to.endpoint);
  if (link == links_.end()) {
    std::erase_if(links_, [&](const auto& old) { return now - old.second.last_use > kLinkRest; });
    const bool local = to.endpoint.starts_with("ipc://");
    if (!local && to.key.empty() != (self_.keys == nullptr))
      Fail("{}: one of both workers has keys, and the other one has none", to.endpoint);
    Channel channel = Channel::Connect(to.endpoint, self_.identity, local ? nullptr : self_.keys, to.key);
    link = links_.emplace(to.endpoint, Link{std::move(channel), now, {}}).first;
  }
  link->second.last_use = now;
  return link->second;
}

/// Encodes the next chunk. The stream keeps the frame until the link has room for it.
void BlockSender::MakeNext(const Outgoing& outgoing, Stream& stream) const {
  const auto num_blocks = static_cast<uint32_t>(outgoing.blocks.size());
  std::vector<std::span<const std::byte>> parts;
  if (num_blocks > 0) {
    stream.next_bytes = std::min(kChunkBytes, stream.of_block - stream.offset);
    const BlockRuns& runs = stream.to.runs;
    for (const auto part : PartsOf(runs, outgoing.blocks[stream.block], stream.offset, stream.next_bytes))
      parts.emplace_back(part);
  }
  stream.next = EncodeChunk({outgoing.ticket, stream.next_number, outgoing.epoch, static_cast<uint32_t>(self_.rank),
                             num_blocks, stream.block, static_cast<uint64_t>(stream.offset)},
                            parts);
}

/// Sends the next chunk; returns false when the link is full.
bool BlockSender::SendChunk(Outgoing& outgoing, Stream& stream) {
  if (!stream.next) MakeNext(outgoing, stream);
  if (!LinkTo(stream.to).channel.Send("", *stream.next)) return false;
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

/// Tells the receiver that all bytes of the stream will come over a DeviceLink, and requests the move. Returns false
/// when the channel is full.
bool BlockSender::Announce(const Outgoing& outgoing, Stream& stream) {
  Link& link = LinkTo(stream.to);
  if (!link.way.is_open()) link.way.Open(*outgoing.carrier, outgoing.carrier->NewMeeting(), true);
  const std::span<const std::byte> data[] = {std::as_bytes(std::span(link.way.meeting()))};
  const Frame frame = EncodeChunk({.ticket = outgoing.ticket,
                                   .number = 1,
                                   .epoch = outgoing.epoch,
                                   .giver = static_cast<uint32_t>(self_.rank),
                                   .num_blocks = static_cast<uint32_t>(outgoing.blocks.size()),
                                   .by_device = true},
                                  data);
  if (!link.channel.Send("", frame)) return false;
  stream.move = link.way.Move(outgoing.blocks, stream.to.runs);
  stream.last_progress = Clock::now();
  return true;
}

/// Returns true when the stream's move over the DeviceLink has just finished.
bool BlockSender::FollowMove(Outgoing& outgoing, Stream& stream) {
  stream.done = stream.move.IsOver(stream.to.endpoint);
  if (stream.done) outgoing.bytes += stream.of_block * static_cast<int64_t>(outgoing.blocks.size());
  return stream.done;
}

/// Drops the DeviceLinks of unfinished moves. A receiver may have refused an announced move without counting it, so the
/// two ends would number later moves differently.
void BlockSender::DropUnfinishedMoves(const Outgoing& outgoing) {
  for (const Stream& stream : outgoing.streams) {
    for (auto& [endpoint, link] : links_) {
      if (!stream.done && link.way.WasAskedFor(stream.move)) link.way.GiveUp();
    }
  }
}

/// Sends one chunk on each stream of the transfer, if the stream's link has room. If the transfer uses DeviceLinks,
/// announces moves and notices finished moves instead. Returns false when no stream made progress.
bool BlockSender::Advance(Outgoing& outgoing) {
  bool moved = false;
  for (Stream& stream : outgoing.streams) {
    if (stream.done || !outgoing.problem.empty()) continue;
    try {
      if (outgoing.carrier == nullptr) {
        moved |= SendChunk(outgoing, stream);
      } else {
        moved |= stream.move.asked() ? FollowMove(outgoing, stream) : Announce(outgoing, stream);
      }
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
    const std::chrono::seconds patience = stream.move.asked() ? kDevicePatience : kLinkPatience;
    if (now - stream.last_progress >= patience) {
      outgoing.problem = fmt::format("{} took nothing for {} s", stream.to.endpoint, patience.count());
      links_.erase(stream.to.endpoint);  // also drops the chunks queued for this receiver
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
    if (!outgoing.over()) continue;
    DropUnfinishedMoves(outgoing);
    ended.push_back({outgoing.ticket, outgoing.bytes, outgoing.problem});
  }
  std::erase_if(outgoing_, [](const Outgoing& outgoing) { return outgoing.over(); });
  return ended;
}

}  // namespace quire
