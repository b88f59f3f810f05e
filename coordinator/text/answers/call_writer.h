#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/text/answers/call_grammar.h"
#include "coordinator/text/answers/tag_formats.h"

namespace quire {

/// How an answer's calls are written, as formats of a structural tag.
class CallWriter {
 public:
  explicit CallWriter(const CallConstraint& constraint);

  /// One call, or more of them, of those tools that may be called.
  OrderedJson Calls(bool several) const;
  /// As many as the request lets there be at once.
  OrderedJson Calls() const;
  /// The format has something behind all calls.
  bool closes() const;

  std::vector<std::string> Names() const;
  const TagBuilder& build() const { return build_; }

 private:
  OrderedJson Call(size_t tool) const;
  OrderedJson HarmonyCall(const std::string& name, const OrderedJson& arguments) const;

  const CallConstraint& constraint_;
  TagBuilder build_;
  ToolFormat format_;
  bool mistral_names_;  // the model has a token between a function's name and its arguments
};

}  // namespace quire
