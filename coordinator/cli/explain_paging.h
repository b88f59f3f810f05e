#pragma once

#include <string>

namespace quire {

/// Returns a walkthrough that explains paged attention by the real block manager, as lines of plain text. In the
/// walkthrough a prompt fills blocks of four tokens, and decoding takes blocks on demand. A second sample shares all
/// blocks and takes its own block at a block boundary. A third sample copies the shared block into which it writes. At
/// the end all blocks are free again, and a second request finds the prompt cached.
std::string ExplainPaging();

}  // namespace quire
