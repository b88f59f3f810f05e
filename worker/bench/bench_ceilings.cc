#include "worker/bench/bench_ceilings.h"

#include <cstring>

#include "comm/base/json.h"
#include "comm/model/formats/mapped_file.h"
#include "kernels/ceilings.h"
#include "worker/cpu/numa.h"

namespace quire {

int RunCeilingsBench(const CeilingsBench& bench, MpiBootstrap& mpi) {
  KeepToNumaNodes(mpi.local_rank(), mpi.local_size());  // serving ranks do the same
  const kernels::CpuStream stream(bench.threads);
  mpi.Barrier();
  const kernels::Ceilings mine = kernels::MeasureCeilings(stream);
  kernels::Ceilings all;
  const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof(mine));
  for (const std::string& other : mpi.GatherAll(bytes)) {
    kernels::Ceilings rank;
    std::memcpy(&rank, other.data(), sizeof(rank));
    all.read_bytes += rank.read_bytes;
    all.steady_bytes += rank.steady_bytes;
    all.multiply_add += rank.multiply_add;
    all.int16 += rank.int16;
    all.int8 += rank.int8;
  }
  if (mpi.rank() != 0) return 0;
  WriteTextFile(bench.json_file, DumpJson({{"ranks", mpi.world_size()},
                                           {"threads", bench.threads},
                                           {"isa", kernels::CpuIsaName()},
                                           {"read_bytes", all.read_bytes},
                                           {"steady_bytes", all.steady_bytes},
                                           {"multiply_add", all.multiply_add},
                                           {"int16", all.int16},
                                           {"int8", all.int8}}) +
                                     "\n");
  return 0;
}

}  // namespace quire
