#pragma once

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"

namespace quire {

inline constexpr size_t kMaxTools = 128;
inline constexpr size_t kMaxToolNameBytes = 128;

/// Whether the byte may stand in a tool's name: letters, digits and _ - . : /
inline bool IsToolNameByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-.:/").find(c) != std::string_view::npos;
}

class ParameterTypes;

/// A function that a client offers to the model.
struct Tool {
  std::string name;
  OrderedJson definition;  // of OpenAI's form, as it was sent: {"type": "function", "function": {...}}
  OrderedJson parameters;  // a JSON schema of an object; null: none was given
  bool strict = false;     // calls must be accepted by the schema
  // What the schemas of a request's tools say of their parameters, for all these tools together (typed_values.h); null:
  // it is read anew for each argument.
  std::shared_ptr<ParameterTypes> types = nullptr;
};

/// Whether an answer calls functions, and which.
struct ToolChoice {
  enum Mode { kAuto, kNone, kRequired, kNamed };
  Mode mode = kAuto;
  std::string name;  // of kNamed
};

/// The tools of one request. Independent of the endpoint that they came through.
struct ToolUse {
  std::vector<Tool> tools;
  ToolChoice choice;
  bool parallel = true;  // an answer may call more than one

  /// The model is shown the tools, and its answer may call them.
  bool active() const { return !tools.empty() && choice.mode != ToolChoice::kNone; }
  const Tool* Find(std::string_view name) const {
    const auto found = std::ranges::find(tools, name, &Tool::name);
    return found == tools.end() ? nullptr : &*found;
  }
};

}  // namespace quire
