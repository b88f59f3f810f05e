#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quire {

struct YamlEntry;

/// A YAML document as plain data, with line numbers for error messages. Scalars stay text, because the parser does not
/// guess types.
struct YamlNode {
  enum class Kind { kScalar, kSequence, kMapping };

  Kind kind = Kind::kScalar;
  int line = 1;  // line on which the node begins, counted from 1
  std::string scalar;
  bool quoted = false;
  std::vector<YamlNode> items;     // elements of a sequence
  std::vector<YamlEntry> entries;  // entries of a mapping, in file order
  std::string given_as;            // command line flag that gave the value, for messages; empty: a file gave it

  const YamlNode* Find(const std::string& key) const;
};

struct YamlEntry {
  std::string key;
  YamlNode node;
};

/// The largest text that ParseYaml accepts, in bytes.
inline constexpr size_t kMaxYamlBytes = 256 << 10;

/// Parses one document strictly. Throws Error of the form "file:line: reason" for invalid YAML and for an empty file.
/// Refuses keys that are not plain text, aliases, anchors, tags, duplicate keys, a second document, and documents
/// beyond the limits in yaml_tree.cc and kMaxYamlBytes.
YamlNode ParseYaml(const std::string& text, const std::string& file);

}  // namespace quire
