#pragma once

#include <string>

namespace quire {

/// Returns a walkthrough that explains paged attention by the real block manager, as lines of plain text. In the
/// walkthrough a prompt fills blocks of four tokens, decoding opens blocks on demand, a second sample shares all blocks
/// and opens a block of its own at a block boundary, a third sample copies the shared block into which it writes, all
/// blocks come back at the end, and a second request finds the prompt cached.
std::string ExplainPaging();

}  // namespace quire
