#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire {

/// Returns the command line in the form that the parser expects, with the last argument first. Rewrites common habits:
/// -tp 2, -tp=2, -tp2, and `help` before a command or without one.
std::vector<std::string> Arguments(int argc, const char* const* argv);

/// Returns one line that names the first unknown command or long flag, and suggests a similar one if there is one; ""
/// if all are known. `arguments` come from Arguments.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments);

/// Returns the candidate that needs the fewest insertions, deletions, replacements and swaps of neighbouring letters to
/// become `word`; of several such candidates, the first. Returns "" if every candidate needs more edits than a third of
/// the word's letters; one edit is always allowed.
std::string NearestWord(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace quire
