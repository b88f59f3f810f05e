#pragma once

#include <string>

namespace quire {

/// The result of one check.
struct CheckLine {
  enum class Status { kOk, kFailed, kSkipped, kWarned };

  std::string check;  // for example "interface"
  std::string host;   // empty: this host
  Status status = Status::kOk;
  std::string found;
  std::string remedy;  // how to mend a failure; a warning says this in `found`
};

}  // namespace quire
