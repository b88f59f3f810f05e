#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/base/json.h"
#include "coordinator/text/conversation.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/template_traits.h"
#include "coordinator/text/tokenizer_data.h"

namespace quire {

/// A model's own chat template: turns a conversation into the prompt the model was trained on. Immutable; safe to
/// share.
class ChatTemplate {
 public:
  /// Parses the template; throws Error when it uses something the interpreter does not know, or is missing.
  explicit ChatTemplate(const TokenizerData& tokenizer);
  ~ChatTemplate();

  /// Every byte that came with the conversation is marked as the user's. Throws Error when the template refuses or goes
  /// beyond a bound (jinja::Limits): its work, its memory, its depth and its time on the clock are limited.
  /// `cancelled`, when given, is asked on this thread every fraction of a millisecond of work; once it says true, the
  /// rendering ends with an Error.
  MarkedText Render(const Conversation& conversation, std::function<bool()> cancelled = {}) const;
  /// The same for messages alone.
  MarkedText Render(const Json& messages, bool add_generation_prompt, std::function<bool()> cancelled = {}) const;

  const std::string& source() const { return source_; }
  /// Whether the template's text has this name as a word of its own; what it does not name it does not read.
  bool Names(std::string_view name) const;
  using Traits = TemplateTraits;
  const Traits& traits() const { return traits_; }

 private:
  struct Parsed;
  MarkedText RenderAsItIs(const Conversation& conversation, std::function<bool()> cancelled) const;

  std::unique_ptr<Parsed> parsed_;
  std::string source_, bos_token_, eos_token_, pad_token_;
  Traits traits_;
};

}  // namespace quire
