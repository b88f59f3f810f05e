#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire {

/// Returns the command line in the form that the parser expects, last argument first. Rewrites common habits: -tp 2,
/// -tp=2, -tp2, and `help` before or without a command.
std::vector<std::string> Arguments(int argc, const char* const* argv);

/// Returns a one-line suggestion for an unknown command or flag; "" if nothing similar exists. `arguments` come from
/// Arguments.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments);

/// Returns the candidate with the fewest insertions, deletions, replacements and swaps of neighbouring letters from
/// `word`; the first of equals. "" if all candidates need more than a third of the word's letters.
std::string NearestWord(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace quire
