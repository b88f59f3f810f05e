#pragma once

#include <map>
#include <string>

#include "coordinator/text/jinja/ast.h"
#include "coordinator/text/jinja/budget.h"

namespace quire::jinja {

/// Renders a parsed template with these variables. Templates can only compute text, within the limits; they can access
/// neither files nor other code. Throws Error "template:line: reason", also when the template calls raise_exception.
MarkedText Render(const Body& body, const std::map<std::string, Value>& variables, const Limits& limits = {});

}  // namespace quire::jinja
