#pragma once

#include <map>
#include <string>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

/// Variables, by their names.
using Scope = std::map<std::string, Value>;

/// Returns the functions that every template may call: range, namespace, dict, raise_exception. The functions charge
/// the budget, which must outlive them.
Scope Globals(Budget& budget);

}  // namespace quire::jinja
