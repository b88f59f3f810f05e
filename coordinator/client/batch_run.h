#pragma once

#include <string>

namespace quire {

/// Settings of `quire batch run`, which sends the requests of a file to a running server.
struct BatchCommand {
  std::string input;   // path of the file of requests (BatchFile)
  std::string output;  // path of the answers (BatchAnswers); empty: the input's, with .answers.jsonl for .jsonl
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;  // path of a file with the key in its first line; empty: no key
  int max_concurrency = 32;  // requests at the same time
  int retries = 10;          // retries of a request that was refused for now (429, 503) or ended by a network error
};

/// Sends every request that has no answer with status 200 in the output, and appends the answers as they come. Shows
/// progress on standard error: a bar on a terminal, otherwise a line every ten seconds. Ctrl-C ends the run without
/// waiting for answers; another run continues with the remaining requests. Returns 1 unless every request has an answer
/// with status 200. Throws Error for an invalid file or address.
int RunBatch(const BatchCommand& command);

}  // namespace quire
