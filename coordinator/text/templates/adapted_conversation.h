#pragma once

#include "coordinator/text/templates/conversation.h"
#include "coordinator/text/templates/template_traits.h"

namespace quire {

/// Converts a conversation into the form that a template with these traits expects, without losing content.
Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation);

}  // namespace quire
