#pragma once

#include <string>

namespace quire {

/// Says in the log that something which clients send is left out of what the model sees, and why: one line for each
/// text, of no more than some hundred texts. May be called by several threads.
void TellLeftOut(const std::string& what);

}  // namespace quire
