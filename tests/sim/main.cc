// sim: lives through seeds and stops at the first that breaks a promise.
//   sim FIRST COUNT [MUTANT]     seeds FIRST .. FIRST + COUNT - 1; every 50th twice, whose traces must be equal
//   sim --narrate SEED           says what happens in one life
//   sim --kept FILE              the seeds listed in a file: those that once failed
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "comm/error.h"
#include "tests/sim/active_mutant.h"
#include "tests/sim/simulator.h"

namespace {

thread_local uint64_t current_seed = 0;

/// A broken invariant aborts: say by which seed.
void OnAbort(int) {
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "seed %llu\n", static_cast<unsigned long long>(current_seed));
  (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
}

/// True when the seed's life keeps every promise.
bool Live(uint64_t seed, quire::sim::Outcome& total) {
  current_seed = seed;
  try {
    const auto outcome = quire::sim::Simulate(seed);
    if (seed % 50 == 0 && quire::sim::Simulate(seed).trace_hash != outcome.trace_hash) {
      throw quire::sim::Failure{"the same seed took another course"};
    }
    total.steps += outcome.steps;
    total.preemptions += outcome.preemptions;
    total.swap_outs += outcome.swap_outs;
    total.cached_tokens += outcome.cached_tokens;
    total.epochs += outcome.epochs;
    total.finished += outcome.finished;
    total.ahead += outcome.ahead;
    total.dropped += outcome.dropped;
    total.moved += outcome.moved;
    total.moved_bare += outcome.moved_bare;
    total.trace_hash ^= outcome.trace_hash;
    return true;
  } catch (const quire::sim::Failure& failure) {
    fmt::print(stderr, "seed {}: {}\n", seed, failure.what);
  } catch (const std::exception& error) {
    fmt::print(stderr, "seed {}: unexpected: {}\n", seed, error.what());
  }
  return false;
}

std::vector<uint64_t> KeptSeeds(const char* path) {
  std::ifstream file(path);
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGABRT, OnAbort);
  std::vector<uint64_t> seeds;
  if (argc == 3 && std::string(argv[1]) == "--narrate") {
    ::setvbuf(stdout, nullptr, _IOLBF, 0);  // an abort must not swallow the last lines
    current_seed = std::strtoull(argv[2], nullptr, 10);
    try {
      quire::sim::Narrate(current_seed);
      return 0;
    } catch (const quire::sim::Failure& failure) {
      fmt::print("{}\n", failure.what);
      return 1;
    }
  }
  if (argc == 3 && std::string(argv[1]) == "--kept") {
    seeds = KeptSeeds(argv[2]);
  } else if (argc >= 3) {
    for (uint64_t i = 0; i < std::strtoull(argv[2], nullptr, 10); ++i)
      seeds.push_back(std::strtoull(argv[1], nullptr, 10) + i);
    quire::sim::active_mutant = argc > 3 ? std::atoi(argv[3]) : 0;
  } else {
    fmt::print(stderr, "usage: sim FIRST COUNT [MUTANT] | sim --narrate SEED | sim --kept FILE\n");
    return 2;
  }
  std::atomic<size_t> next{0}, failed{0};
  std::vector<quire::sim::Outcome> totals(2);
  std::vector<std::thread> threads;
  for (auto& total : totals) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < seeds.size() && failed == 0; i = next++) failed += !Live(seeds[i], total);
    });
  }
  for (auto& thread : threads) thread.join();
  const auto sum = [&](int64_t quire::sim::Outcome::*field) { return totals[0].*field + totals[1].*field; };
  using quire::sim::Outcome;
  fmt::print(
      "{} seeds: {} steps, {} planned ahead, {} draws dropped, {} preemptions, {} swapped out, {} cached tokens, "
      "{} epochs, {} requests answered, {} moved with blocks, {} without\n",
      seeds.size(), sum(&Outcome::steps), sum(&Outcome::ahead), sum(&Outcome::dropped), sum(&Outcome::preemptions),
      sum(&Outcome::swap_outs), sum(&Outcome::cached_tokens), sum(&Outcome::epochs), sum(&Outcome::finished), sum(&Outcome::moved), sum(&Outcome::moved_bare));
  return failed == 0 ? 0 : 1;
}
