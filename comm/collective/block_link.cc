#include "comm/collective/block_link.h"

#include <algorithm>
#include <cstring>

#include "comm/base/error.h"
#include "comm/wire/messages.h"

namespace quire {

namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr size_t kMostLinks = 8;

}  // namespace

void BlockReceiver::Expect(uint64_t ticket, BlockMemory blocks) {
  if (expected_.empty()) last_progress_ = Clock::now();
  expected_[ticket] = {std::move(blocks), 1, 0};
}

/// The end of the chunk's transfer, if it is the last or a wrong one. Chunks of transfers that nobody expects (any
/// more) are passed over.
std::optional<BlockTransferEnd> BlockReceiver::Accept(const Frame& frame) {
  const BlockChunk chunk = DecodeChunk(frame);
  const auto it = expected_.find(chunk.ticket);
  if (it == expected_.end()) return std::nullopt;
  Expected& expected = it->second;
  const auto end = [&](std::string problem) {
    const BlockTransferEnd ended{chunk.ticket, expected.bytes, std::move(problem)};
    expected_.erase(it);
    return ended;
  };
  if (chunk.number != expected.next_chunk)
    return end(fmt::format("chunk {} came instead of {}", chunk.number, expected.next_chunk));
  ++expected.next_chunk;
  if (chunk.num_blocks == 0) return end("");
  if (chunk.num_blocks > expected.blocks.size() || chunk.block >= chunk.num_blocks)
    return end(fmt::format("block {} of {}, room for {}", chunk.block, chunk.num_blocks, expected.blocks.size()));
  const std::span<std::byte> memory = expected.blocks[chunk.block];
  if (chunk.offset > memory.size() || chunk.data.size() > memory.size() - chunk.offset || chunk.data.empty())
    return end(fmt::format("{} bytes at {} of a block of {}", chunk.data.size(), chunk.offset, memory.size()));
  std::memcpy(memory.data() + chunk.offset, chunk.data.data(), chunk.data.size());
  expected.bytes += static_cast<int64_t>(chunk.data.size());
  // Numbers leave no gap and every chunk continues the one before, so the last byte of the last block is the end.
  const bool last = chunk.block + 1 == chunk.num_blocks && chunk.offset + chunk.data.size() == memory.size();
  if (!last) return std::nullopt;
  int64_t whole = 0;
  for (size_t i = 0; i < chunk.num_blocks; ++i) whole += static_cast<int64_t>(expected.blocks[i].size());
  return end(expected.bytes == whole ? "" : fmt::format("{} bytes of {}", expected.bytes, whole));
}

std::vector<BlockTransferEnd> BlockReceiver::Poll() {
  std::vector<BlockTransferEnd> ended;
  while (const auto received = channel_.TryReceive()) {
    last_progress_ = Clock::now();
    try {
      if (auto end = Accept(received->frame)) ended.push_back(std::move(*end));
    } catch (const Error&) {  // a broken chunk: its number will be missing
    }
  }
  if (expected_.empty() || Clock::now() - last_progress_ < kLinkPatience) return ended;
  for (const auto& [ticket, expected] : expected_) ended.push_back({ticket, expected.bytes, "nothing came for 5 s"});
  expected_.clear();
  return ended;
}

void BlockSender::Send(uint64_t ticket, const std::string& endpoint, BlockMemory blocks) {
  if (queue_.empty()) last_progress_ = Clock::now();
  Outgoing& outgoing = queue_.emplace_back();
  outgoing.ticket = ticket;
  outgoing.endpoint = endpoint;
  outgoing.blocks = std::move(blocks);
}

Channel& BlockSender::LinkTo(const std::string& endpoint) {
  const auto known = std::ranges::find(links_, endpoint, [](const auto& link) { return link.first; });
  if (known == links_.end()) {
    if (links_.size() == kMostLinks) links_.pop_front();
    links_.emplace_back(endpoint, Channel::Connect(endpoint, identity_));
  } else {
    std::rotate(known, known + 1, links_.end());
  }
  return links_.back().second;
}

/// False when the link is full.
bool BlockSender::SendChunk(Outgoing& outgoing) {
  BlockChunk chunk{outgoing.ticket, outgoing.next_chunk, static_cast<uint32_t>(outgoing.blocks.size()), 0, 0, {}};
  if (!outgoing.blocks.empty()) {
    const std::span<std::byte> memory = outgoing.blocks[outgoing.block];
    chunk.block = static_cast<uint32_t>(outgoing.block);
    chunk.offset = outgoing.offset;
    chunk.data = memory.subspan(outgoing.offset, std::min(kChunkBytes, memory.size() - outgoing.offset));
  }
  if (!LinkTo(outgoing.endpoint).Send("", EncodeChunk(chunk))) return false;
  ++outgoing.next_chunk;
  outgoing.bytes += static_cast<int64_t>(chunk.data.size());
  outgoing.offset += chunk.data.size();
  if (!outgoing.blocks.empty() && outgoing.offset == outgoing.blocks[outgoing.block].size()) {
    outgoing.offset = 0;
    ++outgoing.block;
  }
  outgoing.done = outgoing.block == outgoing.blocks.size();
  return true;
}

std::vector<BlockTransferEnd> BlockSender::Poll() {
  std::vector<BlockTransferEnd> ended;
  while (!queue_.empty()) {
    Outgoing& outgoing = queue_.front();
    std::string problem;
    try {
      while (!outgoing.done && SendChunk(outgoing)) last_progress_ = Clock::now();
    } catch (const Error& error) {
      problem = error.what();
    }
    if (problem.empty() && !outgoing.done) {
      if (Clock::now() - last_progress_ < kLinkPatience) return ended;
      problem = "the other side took nothing for 5 s";
    }
    ended.push_back({outgoing.ticket, outgoing.bytes, std::move(problem)});
    queue_.pop_front();
  }
  return ended;
}

}  // namespace quire
