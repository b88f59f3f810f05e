#include "worker/bench/bench_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/percentile.h"
#include "comm/collective/add_parts.h"
#include "comm/collective/mpi_collective.h"
#include "comm/model/formats/mapped_file.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMinRounds = 20;
constexpr int64_t kFullRoundsBytes = 64 << 10;

/// Returns an all-reduce in host memory. add(part, total) must set `total` to the sum of the parts of all ranks.
SumMethod HostMethod(const std::string& name, const std::string& note, int64_t max_bytes,
                     std::function<void(std::span<float> part, std::span<float> total)> add) {
  const auto floats = static_cast<size_t>(max_bytes) / sizeof(float);
  const auto parts = std::make_shared<std::vector<float>>(floats),
             totals = std::make_shared<std::vector<float>>(floats);
  const auto first = [](std::vector<float>& of, int64_t bytes) {
    return std::span(of).first(static_cast<size_t>(bytes) / sizeof(float));
  };
  return {name,
          note,
          max_bytes,
          [=](int64_t bytes, float value) {
            std::ranges::fill(first(*parts, bytes), value);
            std::ranges::fill(first(*totals, bytes), 0.0f);
          },
          [=](int64_t bytes) { add(first(*parts, bytes), first(*totals, bytes)); },
          [=](int64_t bytes) { return std::pair(first(*totals, bytes).front(), first(*totals, bytes).back()); }};
}

void CheckSum(const SumMethod& method, int64_t bytes, const MpiBootstrap& mpi) {
  const int size = mpi.world_size();
  method.fill(bytes, static_cast<float>(mpi.rank() + 1));
  method.sum(bytes);
  const auto expected = static_cast<float>(size * (size + 1) / 2);
  if (const auto ends = method.ends(bytes); ends != std::pair(expected, expected)) {
    Fail("{}: the sum of {} bytes is {} to {} instead of {}", method.name, bytes, ends.first, ends.second, expected);
  }
}

/// Returns the microseconds of each round, measured on the slowest rank.
std::vector<double> Time(const SumMethod& method, int64_t bytes, int rounds, const MpiBootstrap& mpi) {
  std::vector<double> micros(static_cast<size_t>(rounds));
  for (double& m : micros) {
    mpi.Barrier();
    const auto begin = Clock::now();
    method.sum(bytes);
    m = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  const std::string mine(reinterpret_cast<const char*>(micros.data()), micros.size() * sizeof(double));
  for (const std::string& other : mpi.GatherAll(mine)) {
    for (size_t i = 0; i < micros.size(); ++i) {
      double m = 0;
      std::memcpy(&m, other.data() + i * sizeof(double), sizeof(double));
      micros[i] = std::max(micros[i], m);
    }
  }
  return micros;
}

int RoundsFor(const AllReduceBench& bench, int64_t bytes) {
  if (bytes <= kFullRoundsBytes) return bench.rounds;
  return std::max<int>(kMinRounds, static_cast<int>(bench.rounds * kFullRoundsBytes / bytes));
}

}  // namespace

int RunAllReduceBench(const AllReduceBench& bench, MpiBootstrap& mpi) {
  const std::unique_ptr<Collective> collective = mpi.MakeCollective();
  const std::unique_ptr<Collective> flat = MakeMpiCollective(mpi.rank(), mpi.world_size());
  const bool one_host = mpi.local_size() == mpi.world_size();
  const auto by = [](Collective& one) {
    return [&one](std::span<float> part, std::span<float> total) { one.AllReduceAdd(part, total); };
  };
  const auto by_library = [&mpi](std::span<float> part, std::span<float> total) {
    mpi.LibraryAllReduceSum(part);
    AddParts(
        1, [&](Rank) { return part.data(); }, total);
  };
  std::vector<SumMethod> methods = {
      HostMethod(one_host ? "shared memory" : "by hosts", "sums in rank order", bench.max_bytes, by(*collective)),
      HostMethod("MPI gather", "flat, sums in rank order", bench.max_bytes, by(*flat)),
      HostMethod("MPI_Allreduce", "sums in the library's order", bench.max_bytes, by_library)};
  std::ranges::move(DeviceSumMethods(mpi, bench.max_bytes), std::back_inserter(methods));

  Json results = Json::array(), notes = Json::object();
  for (const SumMethod& method : methods) notes[method.name] = method.note;
  for (int64_t bytes = bench.min_bytes; bytes <= bench.max_bytes; bytes *= 4) {
    const int rounds = RoundsFor(bench, bytes);
    for (const SumMethod& method : methods) {  // methods alternate, so that other load affects all alike
      if (bytes > method.max_bytes) continue;
      CheckSum(method, bytes, mpi);
      method.fill(bytes, 0);  // zeros, because repeated sums would overflow
      const std::vector<double> micros = Time(method, bytes, rounds, mpi);
      results.push_back({{"method", method.name},
                         {"bytes", bytes},
                         {"rounds", rounds},
                         {"median_micros", Percentile(micros, 0.5)},
                         {"p99_micros", Percentile(micros, 0.99)}});
    }
  }
  if (mpi.rank() != 0) return 0;
  const Json found = {{"ranks", mpi.world_size()}, {"host", mpi.host_name()}, {"notes", notes}, {"results", results}};
  WriteTextFile(bench.json_file, DumpJson(found) + "\n");
  return 0;
}

}  // namespace quire
