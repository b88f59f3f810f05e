// ctest runs this program under mpirun with three ranks. The collective of one host (shared memory) and those between
// hosts (MPI) must give the same bits as sums and gathers that the program computes itself. The program also checks
// MpiBootstrap's exchanges at the start, and the links between the stages of a pipeline.
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "comm/base/error.h"
#include "comm/collective/mpi_bootstrap.h"
#include "comm/collective/mpi_collective.h"

namespace {

float Part(quire::Rank rank, size_t i) {
  return 0.1f * static_cast<float>(rank + 1) + 1e-3f * static_cast<float>(i % 89);
}

void Check(quire::Collective& collective, const char* name) {
  const int size = collective.size();
  for (const size_t count : {size_t{1}, size_t{577}, size_t{100000}}) {
    std::vector<float> part(count), total(count, 0.25f);
    for (size_t i = 0; i < count; ++i) part[i] = Part(collective.rank(), i);
    collective.AllReduceAdd(part, total);
    for (size_t i = 0; i < count; ++i) {
      float sum = Part(0, i);
      for (quire::Rank r = 1; r < size; ++r) sum += Part(r, i);
      QUIRE_CHECK(total[i] == 0.25f + sum, "{}: element {} of {} is {}, not {}", name, i, count, total[i], 0.25f + sum);
    }
  }
  std::vector<size_t> counts;
  std::vector<std::byte> expected;
  for (int r = 0; r < size; ++r) {
    counts.push_back(static_cast<size_t>(r) * 1000);
    expected.insert(expected.end(), counts.back(), static_cast<std::byte>(r));
  }
  const std::vector<std::byte> mine(counts[static_cast<size_t>(collective.rank())],
                                    static_cast<std::byte>(collective.rank()));
  std::vector<std::byte> all(expected.size());
  collective.AllGather(mine, counts, all);
  QUIRE_CHECK(all == expected, "{}: gathered bytes differ", name);
}

/// Aborts when an exchange of MpiBootstrap at start gives wrong bytes or sums. All ranks are on this host.
void CheckBootstrap(const quire::MpiBootstrap& mpi) {
  const std::string id("an id\0with zeros", 16), mine(static_cast<size_t>(mpi.rank()) * 3000, 'r');
  for (const std::string& sent : {id, std::string()}) {
    const std::string got = mpi.Broadcast(mpi.rank() == 0 ? sent : "ignored");
    QUIRE_CHECK(got == sent, "rank {} got {} bytes of {}", mpi.rank(), got.size(), sent.size());
  }
  const std::vector<std::string> all = mpi.GatherAll(mine);
  QUIRE_CHECK(all.size() == static_cast<size_t>(mpi.world_size()), "{} parts", all.size());
  for (size_t r = 0; r < all.size(); ++r) {
    QUIRE_CHECK(all[r] == std::string(r * 3000, 'r'), "rank {}'s part has {} bytes", r, all[r].size());
  }
  QUIRE_CHECK(mpi.local_rank() == mpi.rank() && mpi.local_size() == mpi.world_size(), "local rank {} of {}",
              mpi.local_rank(), mpi.local_size());
  QUIRE_CHECK(mpi.GatherAll(mpi.host_name())[0] == mpi.host_name() && !mpi.host_name().empty(), "one host");
  std::vector<float> sum(577, static_cast<float>(mpi.rank() + 1));
  mpi.LibraryAllReduceSum(sum);
  for (const float x : sum)
    QUIRE_CHECK(x == static_cast<float>(mpi.world_size() * (mpi.world_size() + 1) / 2), "{}", x);
}

/// Aborts when a byte is wrong after three stages have sent rows and tokens: each stage sends rows to the next stage,
/// and the last stage sends tokens to the others.
void CheckLink(quire::StageLink& link) {
  const auto byte_of = [](int stage, size_t i) {
    return static_cast<std::byte>(stage * 31 + static_cast<int>(i % 97));
  };
  const int stage = link.stage(), stages = link.num_stages();
  for (const size_t count : {size_t{1}, size_t{70'000}, size_t{1'000'003}}) {
    std::vector<std::byte> got(count), mine(count);
    for (size_t i = 0; i < count; ++i) mine[i] = byte_of(stage, i);
    if (stage > 0) {
      link.Receive(stage - 1, got);
      for (size_t i = 0; i < count; ++i) QUIRE_CHECK(got[i] == byte_of(stage - 1, i), "row byte {} of {}", i, count);
    }
    if (!link.is_last()) {
      link.Send(stage + 1, mine);
      link.Receive(stages - 1, got);
      for (size_t i = 0; i < count; ++i) QUIRE_CHECK(got[i] == byte_of(stages - 1, i), "token byte {} of {}", i, count);
    } else {
      for (int to = 0; to < stages - 1; ++to) link.Send(to, mine);
    }
  }
}

}  // namespace

int main() {
  quire::MpiBootstrap mpi;
  CheckBootstrap(mpi);
  const auto chosen = mpi.MakeCollective();
  Check(*chosen, "chosen");
  Check(*quire::MakeMpiCollective(mpi.rank(), mpi.world_size()), "mpi");
  // One machine plays several hosts; the ranks of a host need not be consecutive.
  for (const std::vector<int>& hosts : {std::vector{0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}})
    Check(*mpi.MakeHierarchicalCollective(hosts), "by hosts");
  // Ranks 0 and 2 form one group, and rank 1 forms another.
  const auto part = mpi.MakeCollective(mpi.rank() % 2);
  QUIRE_CHECK(part->size() == (mpi.rank() == 1 ? 1 : 2), "a group of {}", part->size());
  Check(*part, "some of the ranks");
  const quire::GroupCut stages{{1.0}, {1, 1, 1}};
  CheckLink(*mpi.MakeStageLink(stages));
  CheckLink(*quire::MakeMpiStageLink(stages, mpi.rank()));
  QUIRE_CHECK(mpi.MakeStageLink({{1, 1, 1}, {}}) == nullptr, "a link without a pipeline");
  if (mpi.rank() == 0) std::printf("%d ranks agree\n", mpi.world_size());
  return mpi.world_size() == 3 ? 0 : 1;
}
