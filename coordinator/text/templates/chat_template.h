#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/base/json.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {

/// Functions that a rendering calls while it runs, on the thread that renders.
struct RenderWatch {
  /// Called several times in a millisecond. If the result is true, the rendering ends with an Error.
  std::function<bool()> cancelled = {};
  /// Called before each text is made from the conversation, with the number of bytes that the text needs. An exception
  /// of this function ends the rendering.
  std::function<void(size_t bytes)> makes = {};
};

/// A model's own chat template, which turns a conversation into a prompt in the form on which the model was trained.
/// The class is immutable, so threads can share an object.
class ChatTemplate {
 public:
  /// Parses the template. Throws Error when the template is missing or uses an unsupported construct.
  explicit ChatTemplate(const TokenizerData& tokenizer);
  ~ChatTemplate();

  /// Returns the prompt, in which every byte from the conversation is marked as the user's. Throws Error when the
  /// template refuses the conversation or exceeds a limit of jinja::Limits (work, memory, depth, time). Passes on
  /// exceptions of `watch`.
  MarkedText Render(const Conversation& conversation, const RenderWatch& watch = {}) const;
  /// Does what Render(conversation) does, for messages without tools and variables.
  MarkedText Render(const Json& messages, bool add_generation_prompt, const RenderWatch& watch = {}) const;

  const std::string& source() const { return source_; }
  /// True when the template's text contains this name as a whole word. A template cannot read variables that it does
  /// not name.
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

/// Reads a chat template from a file. Throws Error, which names the file, when the file cannot be read, when the
/// template has an error, or when it refuses a single user message. For the latter two, the Error names the line, too.
std::string ReadChatTemplate(const std::string& path);

}  // namespace quire
