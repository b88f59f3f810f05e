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

/// True for bytes allowed in tool names: letters, digits and _ - . : /
inline bool IsToolNameByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-.:/").find(c) != std::string_view::npos;
}

class ParameterTypes;

/// A function that a client offers to the model.
struct Tool {
  std::string name;
  OrderedJson definition;  // in OpenAI's form, as sent: {"type": "function", "function": {...}}
  OrderedJson parameters;  // JSON schema of an object; null: none given
  bool strict = false;     // calls must satisfy the schema
  // The parameter types of all the request's tools, cached (typed_values.h); null: types are read anew for each
  // argument.
  std::shared_ptr<ParameterTypes> types = nullptr;
};

/// Says whether an answer must, may or must not call functions.
struct ToolChoice {
  enum Mode { kAuto, kNone, kRequired, kNamed };
  Mode mode = kAuto;
  std::string name;  // set for kNamed
};

/// The tools of one request, independent of the API endpoint.
struct ToolUse {
  std::vector<Tool> tools;
  ToolChoice choice;
  bool parallel = true;  // an answer may contain several calls

  /// True when the prompt shows the tools and the model may call them.
  bool active() const { return !tools.empty() && choice.mode != ToolChoice::kNone; }
  /// True when a grammar makes calls satisfy the schemas of their tools. The grammar constrains only calls that begin
  /// with the first marker of the format.
  bool has_grammar() const {
    return choice.mode == ToolChoice::kRequired || choice.mode == ToolChoice::kNamed ||
           std::ranges::any_of(tools, &Tool::strict);
  }
  const Tool* Find(std::string_view name) const {
    const auto found = std::ranges::find(tools, name, &Tool::name);
    return found == tools.end() ? nullptr : &*found;
  }
};

}  // namespace quire
