#pragma once

#include <string>
#include <vector>

namespace quire {

/// How a rank's engine is made; the same on every rank.
struct EngineSizes {
  int block_size = 16;                  // tokens
  int max_step_tokens = 0;              // of one step
  int max_running = 0;                  // sequences
  int max_model_len = 0;                // tokens of a sequence
  int threads = 1;                      // that compute, on the CPU
  std::vector<double> shares;           // one per rank
  std::string quantization = "none";    // of plain weights as they are loaded, on the CPU: none, int8, int4
  std::string kv_cache_dtype = "auto";  // on the CPU: auto (float32), float32, float16, int8
  std::string activations = "int16";    // what meets quantised weights, on the CPU: int16, int8
};

}  // namespace quire
