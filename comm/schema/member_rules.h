#pragma once

#include <string>
#include <vector>

#include "comm/schema/plain_schema.h"
#include "comm/schema/rule_text.h"

namespace quire {

/// What stands around the members of an object; bodies of rules.
struct MemberSigns {
  std::string behind;   // every member
  std::string between;  // two of them
  std::string end;      // behind the last, or where there is none
};

struct MemberRule {
  std::string rule;
  bool required = false;
};

/// The name of a rule for an object's members and its end; empty: there can be no such object. Members come in their
/// order and once each. With `others`, rules for members of other names, there is no order: each of up to five members
/// comes once, of more than five the required ones do, and others come as often as they like; of more than five
/// required ones each waits for those before.
std::string MembersRule(RuleText& rules, const std::vector<MemberRule>& members, const std::vector<std::string>& others,
                        const Counts& counts, const MemberSigns& signs);

}  // namespace quire
