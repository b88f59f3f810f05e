#pragma once

#include <string>

namespace quire {

/// `quire batch run`: the requests of a file, sent to a server that runs.
struct BatchCommand {
  std::string input;   // see BatchFile
  std::string output;  // see BatchAnswers; empty: the input's name with .answers.jsonl in place of .jsonl
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;  // its first line is sent; empty: none
  int max_concurrency = 32;  // requests under way
  int retries = 10;          // of a request that the server has no room for now, or that the network lost
};

/// Sends every request that the output has no answer with status 200 for, and writes the answers as they come. Tells on
/// standard error how far it is: a bar on a terminal, a line every ten seconds elsewhere. Interrupted (Ctrl-C), it ends
/// at once, and another run goes on with what is left. Status 1 unless every request has its answer with status 200.
/// Throws Error for a file or an address that is none.
int RunBatch(const BatchCommand& command);

}  // namespace quire
