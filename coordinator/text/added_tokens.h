#pragma once

#include <stop_token>
#include <string_view>
#include <vector>

#include "coordinator/text/marked_text.h"
#include "coordinator/text/text_finder.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// Added tokens by what they spell.
class AddedTokenFinder {
 public:
  /// A token must stay where it is; `text` is needed until the constructor is done.
  struct Entry {
    std::string_view text;
    const AddedToken* token;
  };
  explicit AddedTokenFinder(const std::vector<Entry>& entries = {});

  struct Found {
    size_t begin, length;  // bytes of the text
    const AddedToken* token;
  };
  /// For every place where tokens begin the longest one, the last place first: control tokens only in bytes that
  /// `marks` trusts (null: all are). Of several that spell the same the first one. Time is linear in the text, however
  /// many and long tokens there are. Throws Stopped when asked to stop.
  std::vector<Found> FindAll(std::string_view text, const MarkedText* marks, const std::stop_token& stop) const;

 private:
  struct Known {
    size_t length;
    const AddedToken* token;
  };
  const Known* Longer(int32_t plain, int32_t control) const;

  std::vector<Known> known_;
  std::vector<size_t> plain_, control_;  // which of known_ the finders' texts are
  TextFinder plain_finder_, control_finder_;
};

/// A part of a text: an added token, with what it strips, or what lies between two.
struct TextPart {
  std::string_view text;
  const AddedToken* token;  // null: none
};

/// Cuts a text where it holds tokens; control tokens only where `marks` trusts (null: everywhere). The text is valid
/// UTF-8 where tokens strip or are single words. Throws Stopped when asked to stop.
std::vector<TextPart> CutAtTokens(std::string_view text, const AddedTokenFinder& tokens, const MarkedText* marks,
                                  const std::stop_token& stop);

}  // namespace quire
