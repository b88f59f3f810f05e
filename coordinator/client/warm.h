#pragma once

#include <string>

namespace quire {

/// Settings of `quire warm`, which makes a running server compute prompts, so that they are in its prefix cache before
/// clients send them.
struct WarmCommand {
  std::string input;  // path of the file of prompts (WarmRequestOf); "-": standard input
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;  // path of a file with the key in its first line; empty: no key
  std::string model;         // the model of prompts that name no model; empty: the server's first model
  int max_concurrency = 4;   // prompts at the same time
};

/// A prompt in the form of the request that makes the server compute it: a path of the API, and a JSON body.
struct WarmRequest {
  std::string path, body;
};

/// Reads a line of the file. A JSON string, or a list of token ids, is a prompt of /v1/completions. An object is the
/// body of a request: of /v1/chat/completions if it has `messages`, else of /v1/completions. The request samples one
/// token, whatever the body says. Throws Error, which begins with `where`, for anything else.
WarmRequest WarmRequestOf(const std::string& line, const std::string& model, const std::string& where);

/// Sends every prompt of the file, and prints how many tokens the prompts have, and how many of these were cached
/// before. If a prompt was refused or lost, says so on standard error and returns 1. Throws Error for an invalid file
/// or address.
int RunWarm(const WarmCommand& command);

}  // namespace quire
