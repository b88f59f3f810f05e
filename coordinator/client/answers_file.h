#pragma once

#include <sys/stat.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// The beginning of every line in a file of answers.
inline constexpr std::string_view kAnswerBegin = R"({"id":"batch_req_)";
/// Response bodies that are JSON within these limits are stored as JSON, all others as a JSON string.
inline constexpr JsonLimits kBodyLimits{.max_depth = 64, .max_nodes = 20'000'000};

/// A file to which answers are appended, locked against other runs. To damage no other file, the constructor accepts
/// only a regular file of this user that has a single name and contains only answers.
class AnswersFile {
 public:
  /// Opens or creates the file. Keeps lines of an earlier run with status 200. Removes all other lines, and an
  /// incomplete last answer: a new file replaces the old one once it is on the disk. The new file has the old file's
  /// mode; if it cannot have the same group, the group gets no rights. Throws SettingsError, and changes nothing, when
  /// the path is a link, another user's file or the file at `requests`, or when the file has lines that are no answers.
  /// Throws Error when another run uses the file.
  AnswersFile(const std::string& path, const std::string& requests);
  ~AnswersFile();
  AnswersFile(const AnswersFile&) = delete;
  AnswersFile& operator=(const AnswersFile&) = delete;

  /// Returns the custom_ids of the requests that an earlier run has answered.
  const std::set<std::string>& answered() const { return answered_; }
  /// Appends the bytes. Throws Error when the disk refuses the bytes.
  void Add(std::string_view bytes);

 private:
  bool Open();
  void Check(const std::string& requests) const;
  /// True while the path still leads to the open file.
  bool IsInPlace() const;
  struct Range {
    off_t begin, end;  // offsets in the file
  };
  std::vector<Range> Sift();
  void Replace(const std::vector<Range>& kept);

  std::string path_;
  int descriptor_ = -1;
  struct stat info_ = {};
  std::set<std::string> answered_;
  bool ends_line_ = true;  // the last line that stays in the file ends with a newline
};

}  // namespace quire
