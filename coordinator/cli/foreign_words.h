#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire {

/// A command line in Quire's own words, from left to right. Served names and adapters are its last words.
struct OwnWords {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // one sentence for each flag that was ignored
};

/// Turns flags of other engines (foreign_flags.h) into flags of Quire, and several served names or adapters into one
/// JSON list. Of flags that the command itself has, translates only the foreign values. Throws Error for a refused
/// flag, value or command, with the remedy, and for a short flag that the command does not have.
OwnWords InOwnWords(const CLI::App& app, const std::vector<std::string>& typed);

}  // namespace quire
