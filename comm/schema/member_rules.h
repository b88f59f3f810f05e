#pragma once

#include <string>
#include <vector>

#include "comm/schema/plain_schema.h"
#include "comm/schema/rule_text.h"

namespace quire {

/// The punctuation around the members of an object, as bodies of grammar rules.
struct MemberSigns {
  std::string behind;   // text after every member
  std::string between;  // text between two members
  std::string end;      // text after the last member, or alone when there is no member
};

struct MemberRule {
  std::string rule;
  bool required = false;
};

/// Returns the name of a rule for an object's members and its end; empty when there can be no such object. Without
/// `others`, members come in their order, each at most once. `others` are rules for members of other names; with them,
/// members come in any order. Up to five `members` come at most once each. When there are more, only required members
/// come at most once, and optional members may repeat, as other members may. More than five required members come in
/// their order. `counts` bounds the number of all members.
std::string MembersRule(RuleText& rules, const std::vector<MemberRule>& members, const std::vector<std::string>& others,
                        const Counts& counts, const MemberSigns& signs);

}  // namespace quire
