#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/json.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// A model's own chat template: turns a conversation into the prompt the model was trained on. Immutable; safe to
/// share.
class ChatTemplate {
 public:
  /// Parses the template; throws Error when it uses something the interpreter does not know, or is missing.
  explicit ChatTemplate(const TokenizerData& tokenizer);
  ~ChatTemplate();

  /// messages: a validated list of objects with role and content. Every byte that came from them is marked as the
  /// user's. Throws Error when the template refuses or goes beyond a bound (jinja::Limits): its work, its memory, its
  /// depth and its time on the clock are limited. `cancelled`, when given, is asked on this thread every fraction of a
  /// millisecond of work; once it says true, the rendering ends with an Error.
  MarkedText Render(const Json& messages, bool add_generation_prompt, std::function<bool()> cancelled = {}) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
  std::string bos_token_, eos_token_, pad_token_;
};

}  // namespace quire
