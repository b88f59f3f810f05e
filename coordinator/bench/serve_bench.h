#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// Settings of `quire bench serve`, which measures streams from a running server, Quire's or another one with OpenAI's
/// API.
struct ServeBench {
  std::string base_url = "http://127.0.0.1:8000";
  std::string model;         // the server's name of the model; empty: not sent
  std::string api_key_file;  // path of a file with the key in its first line; empty: no key
  int num_prompts = 32;
  double request_rate = 0;  // requests per second, at random times; 0: all at the start
  int max_concurrency = 0;  // requests at the same time; 0: no limit
  int input_len = 128;
  int output_len = 64;
  int vocab_size = 20000;  // prompts are random token ids below this
  uint64_t seed = 1;
  bool json = false;
};

/// Runs the load and prints throughput and latencies; as JSON, also the latencies of each request. Returns 1 when a
/// request failed. Throws Error for an invalid address.
int RunServeBench(const ServeBench& bench);

}  // namespace quire
