#pragma once

#include <map>
#include <string>

#include "coordinator/text/jinja/ast.h"
#include "coordinator/text/jinja/budget.h"

namespace quire::jinja {

/// Renders a parsed template with the given variables. Templates can only compute text within the limits; they cannot
/// access files or external code. Throws Error "template:line: reason", also for the template's own raise_exception.
MarkedText Render(const Body& body, const std::map<std::string, Value>& variables, const Limits& limits = {});

}  // namespace quire::jinja
