#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "comm/base/types.h"

namespace quire {

// Functions that build xgrammar's structural tag formats, as JSON.

OrderedJson TagFormat(const char* type, OrderedJson members);
OrderedJson SequenceOf(std::vector<OrderedJson> elements);
OrderedJson AnyOf(std::vector<OrderedJson> elements);
OrderedJson OptionalOf(OrderedJson content);
OrderedJson StarOf(OrderedJson content);
OrderedJson RegexOf(const std::string& pattern);
/// Returns the format of any text that contains none of these texts.
OrderedJson TextWithout(const std::vector<std::string>& texts);
/// Returns the format of a value that satisfies the schema. `style`: "json", or one of xgrammar's tag styles, such as
/// "qwen_xml". A null schema accepts any object. In tag styles one whitespace character, such as a line break, may
/// stand on either side of a value.
OrderedJson ValueOf(const OrderedJson& schema, const char* style);

/// Builds formats for one model.
class TagBuilder {
 public:
  /// control_tokens: texts that are control tokens of the model; grammars refer to them by id.
  explicit TagBuilder(const std::map<std::string, TokenId>& control_tokens) : control_tokens_(control_tokens) {}

  bool IsToken(const std::string& text) const { return control_tokens_.contains(text); }
  TokenId TokenOf(const std::string& text) const { return control_tokens_.at(text); }
  /// Returns the texts that are not control tokens of the model, and that answers can therefore spell.
  std::vector<std::string> Spelled(const std::vector<std::string>& texts) const;

  /// Returns a sequence of texts and formats. Control tokens in the texts become token formats. Null formats are left
  /// out.
  OrderedJson Row(std::initializer_list<std::pair<std::string, OrderedJson>> parts) const;

 private:
  void AddText(std::string_view text, std::vector<OrderedJson>& out) const;

  const std::map<std::string, TokenId>& control_tokens_;
};

}  // namespace quire
