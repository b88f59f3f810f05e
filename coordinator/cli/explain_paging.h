#pragma once

#include <string>

namespace quire {

/// Returns a walkthrough that explains paged attention with the real block manager, as plain lines of text. A prompt
/// fills blocks of four tokens, decoding opens blocks on demand, a second sample shares the prompt and copies on its
/// first write, all blocks come back at the end, and a second request finds the prompt cached.
std::string ExplainPaging();

}  // namespace quire
