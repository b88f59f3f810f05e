#pragma once

#include <string>

namespace quire {

/// Logs the words unless something was logged under that key before. The first 256 keys are told: clients may invent
/// more. May be called by several threads.
void TellOnce(const std::string& key, const std::string& words);

/// Logs once that something which clients send is left out of what the model sees, and why.
void TellLeftOut(const std::string& what);

}  // namespace quire
