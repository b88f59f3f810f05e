#include "comm/wire/gate/first_message.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace quire {

namespace {

constexpr uint8_t kLong = 2, kCommand = 4;  // flags of a frame
constexpr std::string_view kSubscribe = "SUBSCRIBE";

uint8_t ByteOf(char c) { return static_cast<uint8_t>(c); }

}  // namespace

bool FirstMessage::Reached(std::span<const char> bytes) {
  for (size_t i = 0; i < bytes.size() && !reached_;) {
    const size_t skipped = std::min(skip_, bytes.size() - i);
    skip_ -= skipped;
    i += skipped;
    if (i < bytes.size() && EndsHead(bytes[i++])) head_.clear();
  }
  return reached_;
}

/// Takes a byte of a frame's head: the flags, the length and a command's name. Returns true when the byte ends the head
/// of a command that is no subscription. Sets reached_ at a message or a subscription.
bool FirstMessage::EndsHead(char byte) {
  head_.push_back(byte);
  const uint8_t flags = ByteOf(head_[0]);
  if ((flags & kCommand) == 0) {
    reached_ = true;
    return false;
  }
  const size_t begin = (flags & kLong) != 0 ? 9 : 2;  // bytes before the body: flags and length
  if (head_.size() < begin) return false;
  uint64_t length = 0;
  for (size_t i = 1; i < begin; ++i) length = length << 8 | ByteOf(head_[i]);
  const size_t came = head_.size() - begin;
  const uint64_t named = came == 0 ? 1 : 1 + uint64_t{ByteOf(head_[begin])};
  if (came < std::min(length, named)) return false;
  reached_ = came == named && std::string_view(head_).substr(begin + 1) == kSubscribe;
  skip_ = length - came;
  return !reached_;
}

}  // namespace quire
