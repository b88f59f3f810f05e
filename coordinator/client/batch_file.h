#pragma once

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "coordinator/client/answers_file.h"

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
  /// As AnswersFile has it.
  BatchAnswers(const std::string& path, const std::string& requests) : file_(path, requests) {}

  /// custom_ids that were answered by an earlier run.
  const std::set<std::string>& answered() const { return file_.answered(); }
  /// A line without its end. Throws Error when the disk does not take it.
  void Add(const std::string& line);

 private:
  AnswersFile file_;
};

}  // namespace quire
