#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/base/yaml_tree.h"

// Parts of help texts and of shells' completions about a server's flags, beside the flags' own lines.
namespace quire {

/// Returns the words of which a flag takes one; empty for flags that take any text.
std::vector<std::string> ValuesOfFlag(std::string_view flag);

// Functions that turn a flag's text into the value of its key in a topology file. `flag` is for messages.

YamlNode ValueAsItIs(const std::string& text, const std::string& flag);
/// Turns a size into a value; a plain number means GiB.
YamlNode ValueInGibibytes(const std::string& text, const std::string& flag);
/// A number of tokens. "32k" means 32,000, "32K" 32,768; m and M are for millions in the same way.
YamlNode ValueOfTokens(const std::string& text, const std::string& flag);
/// Turns a list with commas, or a JSON list as in vLLM, into a list.
YamlNode ValueOfWords(const std::string& text, const std::string& flag);
/// Turns a name, or a JSON list of names, into a list. InOwnWords makes such a list of several words (foreign_words.h).
YamlNode ValueOfNames(const std::string& text, const std::string& flag);

/// Turns one adapter or a JSON list of adapters into a list. An adapter is NAME=PATH, or JSON with "name" and "path".
YamlNode ValueOfAdapters(const std::string& text, const std::string& flag);

/// Returns the heading in --help under which the flag of this key of a topology file stands.
std::string HelpGroupOf(std::string_view key);

}  // namespace quire
