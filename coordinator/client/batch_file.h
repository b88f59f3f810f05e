#pragma once

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "comm/base/json_fwd.h"

namespace quire {

/// The requests of a batch, as OpenAI's batch files have them: a JSON object a line,
///   {"custom_id": "...", "method": "POST", "url": "/v1/...", "body": {...}}.
/// The bodies stay in the file.
class BatchFile {
 public:
  /// Reads and checks every line. Throws Error that names the line.
  explicit BatchFile(const std::string& path);

  struct Entry {
    std::string custom_id;  // its own
    std::string url;        // a path of the API
    std::streamoff begin;   // of its line
  };
  const std::vector<Entry>& entries() const { return entries_; }

  /// The body of an entry's request, as it was written: members keep their order, and numbers their digits.
  std::string BodyOf(const Entry& entry);

 private:
  std::string path_;
  std::ifstream file_;
  std::vector<Entry> entries_;
};

/// The file of a batch's answers, a JSON object a line:
///   {"id": ..., "custom_id": ..., "response": {"status_code", "request_id", "body"}, "error": null},
/// or no response, and an error, where the server could not be asked. Answers come in any order. Nobody else writes to
/// it meanwhile.
class BatchAnswers {
 public:
  /// Opens or makes the file. Lines of an earlier run that have an answer with status 200 stay; all others, the last
  /// one if it was not written to its end, are taken out. Throws Error when that cannot be done.
  explicit BatchAnswers(const std::string& path);
  ~BatchAnswers();
  BatchAnswers(const BatchAnswers&) = delete;
  BatchAnswers& operator=(const BatchAnswers&) = delete;

  /// custom_ids that were answered by an earlier run.
  const std::set<std::string>& answered() const { return answered_; }
  /// A line without its end. Throws Error when the disk does not take it.
  void Add(const std::string& line);

 private:
  std::string path_;
  int descriptor_ = -1;
  std::set<std::string> answered_;
};

}  // namespace quire
