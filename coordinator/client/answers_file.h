#pragma once

#include <sys/stat.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// A line of answers begins so.
inline constexpr std::string_view kAnswerBegin = R"({"id":"batch_req_)";
/// Bodies of answers within these bounds are kept as JSON, others as text.
inline constexpr JsonLimits kBodyLimits{.max_depth = 64, .max_nodes = 20'000'000};

/// A file that lines of answers are added to, held so that nobody else's file is harmed: an ordinary file of the user's
/// own with one name, which has nothing but answers in it, and which no other run writes to.
class AnswersFile {
 public:
  /// Opens or makes the file. Lines of an earlier run that have an answer with status 200 stay; all others, the last
  /// one if it is the beginning of an answer without an end, are taken out: a new file takes the place of the old one
  /// once it is on the disk. It has the old one's mode; where it cannot have the old one's group, its group has no
  /// rights. Throws Error, and changes nothing, when there is a link, another user's file, the file at `requests`, one
  /// that has lines other than answers, or one that another run writes to.
  AnswersFile(const std::string& path, const std::string& requests);
  ~AnswersFile();
  AnswersFile(const AnswersFile&) = delete;
  AnswersFile& operator=(const AnswersFile&) = delete;

  /// custom_ids that were answered by an earlier run.
  const std::set<std::string>& answered() const { return answered_; }
  /// Throws Error when the disk does not take it.
  void Add(std::string_view bytes);

 private:
  bool Open();
  void Check(const std::string& requests) const;
  /// Whether the path still leads to the file that is open.
  bool IsInPlace() const;
  struct Range {
    off_t begin, end;  // bytes of the file
  };
  std::vector<Range> Sift();
  void Replace(const std::vector<Range>& kept);

  std::string path_;
  int descriptor_ = -1;
  struct stat info_ = {};
  std::set<std::string> answered_;
  bool ends_line_ = true;  // the last line that stays has its end
};

}  // namespace quire
