#pragma once

#include <functional>

#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

/// Converts a conversation into the form that a template with these traits expects, without losing content. If `makes`
/// is given, it is called with the number of bytes of each text before the text is made, and at least once for each
/// message. Exceptions of `makes` end the conversion.
Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation,
                       const std::function<void(size_t bytes)>& makes = {});

}  // namespace quire
