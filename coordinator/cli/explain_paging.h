#pragma once

#include <string>

namespace quire {

/// The walkthrough that introduces paged attention, told by the real block manager: a prompt fills blocks of four
/// tokens, decoding opens new ones on demand, a second sample shares the prompt and copies on its first write,
/// everything comes back in the end, and a second request finds the prompt cached. For people, in plain lines.
std::string ExplainPaging();

}  // namespace quire
