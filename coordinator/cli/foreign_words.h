#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire {

/// A command line in Quire's own words, in the order of typing.
struct OwnWords {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // a sentence for each flag that was ignored
};

/// Turns flags of other engines (foreign_flags.h) into Quire's, and several served names into one JSON list. Flags that
/// the command has itself are not translated. Throws Error with the remedy for a flag, a value or a command that is
/// refused, and for short flags that the command does not have.
OwnWords InOwnWords(const CLI::App& app, const std::vector<std::string>& typed);

}  // namespace quire
