#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quire {

struct YamlEntry;

/// A YAML document as plain data with places for error messages: scalars are text, nothing is guessed about types.
struct YamlNode {
  enum class Kind { kScalar, kSequence, kMapping };

  Kind kind = Kind::kScalar;
  int line = 1;  // where it begins, from 1
  std::string scalar;
  bool quoted = false;
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a mapping, in file order
  std::string given_as;            // for messages, where it stands in no file: a flag of the command line

  const YamlNode* Find(const std::string& key) const;
};

struct YamlEntry {
  std::string key;
  YamlNode node;
};

/// Largest file that ParseYaml takes.
inline constexpr size_t kMaxYamlBytes = 256 << 10;

/// Parses one document strictly. Aliases, anchors, tags, duplicate keys, a second document, nesting deeper than 16,
/// more than 1,000 keys in one mapping, 50,000 values and keys, or kMaxYamlBytes are errors. Throws Error of the form
/// "file:line: reason".
YamlNode ParseYaml(const std::string& text, const std::string& file);

}  // namespace quire
