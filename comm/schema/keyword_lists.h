#pragma once

#include <algorithm>
#include <set>
#include <string_view>

namespace quire::keywords {

// The keywords of JSON Schema, grouped by their purpose.

using Words = std::set<std::string_view>;

/// Returns the words of `list`, which are separated by spaces.
inline Words WordsOf(std::string_view list) {
  Words words;
  for (size_t end; !list.empty(); list.remove_prefix(std::min(end + 1, list.size()))) {
    end = std::min(list.find(' '), list.size());
    words.insert(list.substr(0, end));
  }
  return words;
}

// Keywords that a grammar need not enforce: annotations, and keywords that other code reads.
inline const Words kSilent = WordsOf(
    "title description default examples example $schema $id $comment $anchor type const enum "
    "deprecated $defs anyOf $ref oneOf allOf readOnly writeOnly definitions $recursiveRef "
    "$dynamicRef $dynamicAnchor discriminator $recursiveAnchor $vocabulary");
inline const Words kOfNumbers = WordsOf("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf");
inline const Words kOfTexts = WordsOf("minLength maxLength pattern format");
inline const Words kOfArrays = WordsOf(
    "items prefixItems additionalItems minItems maxItems uniqueItems contains minContains "
    "maxContains unevaluatedItems");
inline const Words kOfObjects = WordsOf(
    "properties required additionalProperties patternProperties propertyNames minProperties "
    "maxProperties unevaluatedProperties dependentRequired dependentSchemas dependencies");
// Keywords that a grammar cannot enforce, whatever the type of the value.
inline const Words kOfNone = WordsOf("not if then else");

}  // namespace quire::keywords
