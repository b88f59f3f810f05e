// Input: a topology file, which is either valid or refused with the line or key of the error.
#include "comm/base/error.h"
#include "comm/topology/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  try {
    const Topology t = TopologyFromYaml({reinterpret_cast<const char*>(data), size}, "f");
    ValidateTopology(t, "f");
    QUIRE_CHECK(t.parallel.tensor >= 1 && t.parallel.replicas >= 1, "parallel");
    QUIRE_CHECK(t.cache.block_size >= 1 && t.cache.memory_bytes >= 0 && t.cache.num_blocks >= 0, "cache");
    QUIRE_CHECK(t.scheduler.max_running >= 1, "max_running {}", t.scheduler.max_running);
    for (const double share : t.parallel.shares) QUIRE_CHECK(share > 0, "share {}", share);
    QUIRE_CHECK(ParseHostPort(t.server.listen) && ParseHostPort(t.admin.listen), "listeners");
  } catch (const Error& error) {
    QUIRE_CHECK(std::string_view(error.what()).starts_with("f:"), "no place: {}", error.what());
  }
  return 0;
}
