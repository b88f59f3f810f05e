#pragma once

#include "coordinator/text/conversation.h"
#include "coordinator/text/template_traits.h"

namespace quire {

/// Converts a conversation into the form that a template with these traits expects, without losing content.
Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation);

}  // namespace quire
