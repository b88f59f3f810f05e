#pragma once

#include "coordinator/text/conversation.h"
#include "coordinator/text/template_traits.h"

namespace quire {

/// The conversation as a template with these traits wants it: all that it says is said, in the template's form.
Conversation AdaptedTo(const TemplateTraits& traits, const Conversation& conversation);

}  // namespace quire
