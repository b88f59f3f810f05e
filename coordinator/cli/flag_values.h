#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/base/yaml_tree.h"

// Parts of help texts and of shells' completions about a server's flags, beside the flags' own lines.
namespace quire {

/// The words that a flag takes, for flags that take one of a few; else empty.
std::vector<std::string> ValuesOfFlag(std::string_view flag);

// Functions that turn a flag's text into the value of its key in a topology file. `flag` is for messages.

YamlNode ValueAsItIs(const std::string& text, const std::string& flag);
/// A plain number means GiB.
YamlNode ValueInGibibytes(const std::string& text, const std::string& flag);
/// A number of tokens. "32k" means 32,000, "32K" 32,768; m and M are for millions in the same way.
YamlNode ValueOfTokens(const std::string& text, const std::string& flag);
/// A list with commas, or a JSON list as in vLLM.
YamlNode ValueOfWords(const std::string& text, const std::string& flag);
/// A name, or a JSON list of names, which InOwnWords makes of several words (foreign_words.h).
YamlNode ValueOfNames(const std::string& text, const std::string& flag);

/// A list of adapters, each as NAME=PATH or as JSON of "name" and "path"; or one of them.
YamlNode ValueOfAdapters(const std::string& text, const std::string& flag);

/// The heading in --help under which the flag of this key of a topology file stands.
std::string HelpGroupOf(std::string_view key);

}  // namespace quire
