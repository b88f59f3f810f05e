#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire {

/// The command line as the parser takes it, last argument first. What people type from habit is spelt out: -tp 2,
/// -tp=2, -tp2, and `help` before or without a command.
std::vector<std::string> Arguments(int argc, const char* const* argv);

/// What was probably meant where a command or flag does not exist: one line, or "" where nothing is like it.
/// `arguments` are those that Arguments returned.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments);

/// The candidate that takes the fewest insertions, deletions, replacements and swaps of neighbours to become `word`; ""
/// if all take more than a third of its letters. The first of several.
std::string NearestWord(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace quire
