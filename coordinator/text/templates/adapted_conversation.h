#pragma once

#include <functional>

#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

/// Converts a conversation into the form that a template with these traits expects, without losing content. `makes`, if
/// given, is called with the bytes of each text before the text is made, and at least once for each message; its
/// exceptions end the conversion.
Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation,
                       const std::function<void(size_t bytes)>& makes = {});

}  // namespace quire
