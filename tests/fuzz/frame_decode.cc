// Input: a frame with its own header, or a body of any kind, to which a fitting header is added. A decoded message must
// stay the same when it is encoded and decoded again.
#include <cstring>

#include "comm/base/error.h"
#include "comm/wire/messages.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

constexpr PlanLimits kLimits = {.num_blocks = 32,
                                .num_host_blocks = 8,
                                .block_size = 4,
                                .max_running = 8,
                                .max_step_tokens = 64,
                                .max_model_len = 64,
                                .vocab_size = 100,
                                .max_guess = 4};

Frame ReadFrame(fuzz::ByteSource& bytes) {
  Frame frame;
  const uint32_t kind = bytes.Below(18);
  std::string_view rest = bytes.Rest();
  if (kind == 11) {  // the header is taken as it is
    const size_t count = std::min(rest.size(), sizeof(frame.header));
    std::memcpy(&frame.header, rest.data(), count);
    rest.remove_prefix(count);
  } else {
    frame.header.kind = static_cast<FrameKind>(kind);
    frame.header.epoch = frame.header.step = 1;
  }
  frame.body.resize(rest.size());
  if (!rest.empty()) std::memcpy(frame.body.data(), rest.data(), rest.size());
  if (kind != 11) frame.header.body_hash = HashBytes(frame.body);
  return frame;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const Frame frame = ReadFrame(bytes);
  try {
    const Frame again = Encode(Decode(frame), frame.header.epoch, frame.header.step);
    QUIRE_CHECK(again.header.kind == frame.header.kind, "another kind");
    const Frame third = Encode(Decode(again), frame.header.epoch, frame.header.step);
    QUIRE_CHECK(third.body == again.body, "the message changed on its way");
    if (frame.header.kind == FrameKind::kPlan) DecodePlan(frame, kLimits);
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
