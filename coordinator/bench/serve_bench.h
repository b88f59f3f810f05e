#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// `quire bench serve`: streams from a server that runs already, Quire's or another one with OpenAI's API.
struct ServeBench {
  std::string base_url = "http://127.0.0.1:8000";
  std::string model;         // as the server calls it; empty: not said
  std::string api_key_file;  // its first line is sent; empty: none
  int num_prompts = 32;
  double request_rate = 0;  // a second, at random moments; 0: all at once
  int max_concurrency = 0;  // requests under way; 0: no limit
  int input_len = 128;
  int output_len = 64;
  int vocab_size = 20000;  // prompts are token ids below it
  uint64_t seed = 1;
  bool json = false;
};

/// Prints throughput and latencies, as JSON also of every request; status 1 when a request failed. Throws Error when
/// the address is none.
int RunServeBench(const ServeBench& bench);

}  // namespace quire
