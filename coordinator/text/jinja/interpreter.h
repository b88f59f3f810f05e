#pragma once

#include <map>
#include <string>

#include "coordinator/text/jinja/ast.h"

namespace quire::jinja {

/// Bounds of one rendering; past any of them it fails with a clear error.
struct Limits {
  int64_t max_steps = 2'000'000;       // statements and expressions evaluated
  size_t max_output_bytes = 16 << 20;  // also of any single text or list made on the way
  int max_call_depth = 32;             // of macros
};

/// Renders a parsed template with the given variables. No files, no clock, no code from outside: a template can only
/// compute text. Throws Error "template:line: reason", also for the template's own raise_exception.
MarkedText Render(const Body& body, const std::map<std::string, Value>& variables, const Limits& limits = {});

}  // namespace quire::jinja
