#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/text/answers/call_grammar.h"
#include "coordinator/text/answers/tag_formats.h"

namespace quire {

/// Makes the grammar of an answer's calls, in xgrammar's structural tag formats.
class CallWriter {
 public:
  explicit CallWriter(const CallConstraint& constraint);

  /// Returns the format of one call, or, if `several`, of one or more calls, to the allowed tools.
  OrderedJson Calls(bool several) const;
  /// Returns the format of the answer's calls: one call, or one or more if the request allows parallel calls and does
  /// not name a tool. gpt-oss's format always has one call.
  OrderedJson Calls() const;
  /// True when the format has a text that follows all calls.
  bool closes() const;

  std::vector<std::string> Names() const;
  const TagBuilder& build() const { return build_; }

 private:
  OrderedJson Call(size_t tool) const;
  OrderedJson HarmonyCall(const std::string& name, const OrderedJson& arguments) const;

  const CallConstraint& constraint_;
  TagBuilder build_;
  ToolFormat format_;
  bool mistral_names_;  // the model has a token between function name and arguments
};

}  // namespace quire
