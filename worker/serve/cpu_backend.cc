#include "worker/serve/cpu_backend.h"

#include "worker/cpu/cpu_engine.h"
#include "worker/cpu/numa.h"
#include "worker/serve/worker_log.h"

namespace quire {

namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ModelFiles& files, const EngineSizes& sizes, MpiBootstrap& mpi)
      : files_(files),
        sizes_(sizes),
        collective_(mpi.MakeCollective(sizes.cut().StageOf(mpi.rank()))),
        link_(mpi.MakeStageLink(sizes.cut())) {}

  std::unique_ptr<RankEngine> MakeEngine() override {
    return link_ == nullptr ? MakeCpuEngine(files_, sizes_, *collective_)
                            : MakeCpuStageEngine(files_, sizes_, *collective_, *link_);
  }

 private:
  const ModelFiles& files_;
  EngineSizes sizes_;
  std::unique_ptr<Collective> collective_;  // the ranks of this rank's stage
  std::unique_ptr<StageLink> link_;         // null: no pipeline
};

}  // namespace

std::vector<RankMemory> MemoryOfCpuRanks(const ModelFiles& files, const EngineSizes& sizes) {
  std::vector<RankMemory> ranks;
  for (Rank rank = 0; rank < sizes.cut().num_ranks(); ++rank) ranks.push_back(MemoryOfCpuRank(files, sizes, rank));
  return ranks;
}

std::unique_ptr<Backend> MakeCpuBackend(const ModelFiles& files, const EngineSizes& sizes, MpiBootstrap& mpi) {
  if (const std::string kept = KeepToNumaNodes(mpi.local_rank(), mpi.local_size()); !kept.empty())
    WorkerLog(LogLevel::kInfo, mpi.rank(), kept);
  return std::make_unique<CpuBackend>(files, sizes, mpi);
}

}  // namespace quire
