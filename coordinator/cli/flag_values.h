#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/base/yaml_tree.h"

// The values and help groups of a server's flags, for help texts and shells' completions. Also functions that turn a
// flag's text into a value of a topology file.
namespace quire {

/// Returns the words from which a flag takes one; empty for flags that take any text.
std::vector<std::string> ValuesOfFlag(std::string_view flag);

// Functions that turn a flag's text into the value of its key in a topology file. `flag` is for messages.

YamlNode ValueAsItIs(const std::string& text, const std::string& flag);
/// Returns the value for a size; a plain number means GiB.
YamlNode ValueInGibibytes(const std::string& text, const std::string& flag);
/// Returns the value for a number of tokens. "32k" means 32,000, and "32K" means 32,768; "m" means 1,000,000, and "M"
/// means 1,048,576.
YamlNode ValueOfTokens(const std::string& text, const std::string& flag);
/// Returns the list for words with commas between them, or for a JSON list as in vLLM.
YamlNode ValueOfWords(const std::string& text, const std::string& flag);
/// Returns the value for one name, or the list for a JSON list of names. InOwnWords makes such a JSON list from several
/// words (foreign_words.h).
YamlNode ValueOfNames(const std::string& text, const std::string& flag);

/// Returns the list for one adapter or a JSON list of adapters. An adapter is NAME=PATH, or JSON with "name" and
/// "path".
YamlNode ValueOfAdapters(const std::string& text, const std::string& flag);

/// Returns the heading in --help above the flag of this topology key.
std::string HelpGroupOf(std::string_view key);

}  // namespace quire
