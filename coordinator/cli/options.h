#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/topology/topology.h"

namespace CLI {
class App;
}

namespace quire {

/// What the command line can say about a server; empty fields leave the topology file or the default in force.
struct ServeFlags {
  std::string topology_file, model, backend, host, api_key_file, admin_token_file, ssl_certfile, ssl_keyfile,
      admin_ssl_certfile, admin_ssl_keyfile, allowed_origins, allowed_hosts, access_log, access_log_file,
      audit_log_file, metrics_listen, served_model_name, kv_cache_dtype, dtype,
      quantization = "none", activations = "int16", preemption_mode, journal, verify_checksum, log_level = "info",
      kv_cache_memory, swap_space, tool_call_parser, reasoning_parser;
  std::optional<int> tensor_parallel_size, replicas, threads_per_worker, port, admin_port, max_model_len, max_num_seqs,
      max_num_queued_reqs, max_num_batched_tokens, block_size, num_kv_blocks;
  std::optional<double> memory_utilization;
  std::optional<bool> prefix_caching, chat_page;
  std::optional<int64_t> seed;
};

/// Declares the flags on a subcommand.
void AddServeFlags(CLI::App& app, ServeFlags& flags);

/// The topology file with the flags laid over it, validated. Throws Error (exit status 2) that names file and line, or
/// the flag; settings that this version cannot honour are refused, never ignored.
Topology TopologyFromFlags(const ServeFlags& flags);

}  // namespace quire
