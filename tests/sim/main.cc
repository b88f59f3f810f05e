// sim: runs seeds and stops at the first one that breaks a promise.
//  sim FIRST COUNT              seeds FIRST .. FIRST + COUNT - 1. Every 50th seed runs twice and must give equal
//                               traces. With 1,000 seeds or more, the events of kCounts must happen often enough.
//  sim FIRST COUNT MUTANT       with a planted bug, one seed after the other, so that the first to find it is known
//  sim --narrate SEED           prints what happens in one run
//  sim --kept FILE              the seeds listed in a file, which once failed
// Exit status 1: a promise was broken; 3: an unexpected exception.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "comm/base/error.h"
#include "tests/sim/active_mutant.h"
#include "tests/sim/simulator.h"

namespace {

using quire::sim::Outcome;

constexpr int kBroken = 1, kUsage = 2, kUnexpected = 3;

/// An event that is counted over all runs, and the least number that a thousand runs must have: about half of the
/// number that was measured, and for answers two thirds of all requests. A check of an event that no longer happens
/// would prove nothing.
struct Count {
  const char* what;
  int64_t Outcome::*field;
  double least;
};
constexpr Count kCounts[] = {
    {"steps", &Outcome::steps, 100'000},
    {"planned ahead", &Outcome::ahead, 55'000},
    {"draws dropped", &Outcome::dropped, 5'000},
    {"preemptions", &Outcome::preemptions, 350},
    {"swapped out", &Outcome::swap_outs, 70},
    {"cached tokens", &Outcome::cached_tokens, 7'300},
    {"pins broken", &Outcome::pins_broken, 12},
    {"moved with blocks", &Outcome::moved, 730},
    {"moved on the device", &Outcome::moved_on_device, 460},
    {"moved without", &Outcome::moved_bare, 11'000},
    {"moved half-way", &Outcome::moved_half, 290},
    {"stored blocks", &Outcome::stored, 9'000},
    {"that came back", &Outcome::returned, 2'000},
    {"lies of the store", &Outcome::lies, 240},
    {"copied to the host", &Outcome::copied, 6'000},
    {"copies that came back", &Outcome::brought, 120},
    {"states that did", &Outcome::returned_states, 40},
    {"epochs", &Outcome::epochs, 2'500},
    {"floods", &Outcome::floods, 120},
    {"gave way", &Outcome::gave_way, 430},
    {"stood back", &Outcome::stood_back, 500},
    {"scored tokens", &Outcome::scored, 32'000},
    {"pooled prompts", &Outcome::pooled, 1'000},
    {"whole prompts", &Outcome::whole, 500},
    {"slices of passes", &Outcome::slices, 3'000},
    {"overtaken by shorter ones", &Outcome::overtaken, 50},
    {"lives with states", &Outcome::states, 250},
    {"states kept", &Outcome::states_kept, 3'000},
    {"tokens before states", &Outcome::states_begun, 1'600},
    {"newcomers", &Outcome::newcomers, 470},
    {"with the next plan", &Outcome::prompt_newcomers, 460},
    {"lives that may lose workers", &Outcome::may_fail, 250},
    {"lives that did", &Outcome::lost_a_group, 200},
    {"requests", &Outcome::asked, 7'800},
    {"answered", &Outcome::answered, 10'000},
    {"cancelled", &Outcome::cancelled, 500},
    {"refused", &Outcome::refused, 130},
    {"without room in time", &Outcome::no_room, 390},
    {"past the server's limit", &Outcome::overtime, 25},
    {"past their own", &Outcome::past_deadline, 200},
    {"given up with the workers", &Outcome::given_up, 230},
    {"aborted", &Outcome::aborted, 100},
    {"without numbers", &Outcome::no_numbers, 13},
    {"drafts", &Outcome::drafts, 1},
    {"right drafts", &Outcome::drafts_right, 1},
    {"guesses of the draft model", &Outcome::guesses, 1},
    {"adapters that came", &Outcome::adapters, 400},
    {"changes of options", &Outcome::changes, 500},
};

thread_local uint64_t current_seed = 0;

/// Handles an abort or an access to wrong memory: prints the seed, then lets the signal end the process.
void OnSignal(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "seed %llu\n", static_cast<unsigned long long>(current_seed));
  (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// Runs a seed. Returns 0 when no promise was broken, otherwise the exit status.
int Live(uint64_t seed, Outcome& total) {
  current_seed = seed;
  try {
    const auto outcome = quire::sim::Simulate(seed);
    if (seed % 50 == 0 && quire::sim::Simulate(seed).trace_hash != outcome.trace_hash) {
      throw quire::sim::Failure{"the same seed took another course"};
    }
    for (const Count& count : kCounts) total.*count.field += outcome.*count.field;
    return 0;
  } catch (const quire::sim::Failure& failure) {
    fmt::print(stderr, "{}\nseed {}\n", failure.what, seed);
    return kBroken;
  } catch (const std::exception& error) {
    fmt::print(stderr, "unexpected: {}\nseed {}\n", error.what(), seed);
    return kUnexpected;
  }
}

std::vector<uint64_t> KeptSeeds(const char* path) {
  std::ifstream file(path);
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
  }
  return seeds;
}

int Narrate(uint64_t seed) {
  ::setvbuf(stdout, nullptr, _IOLBF, 0);  // an abort must not swallow the last lines
  current_seed = seed;
  try {
    quire::sim::Narrate(seed);
    return 0;
  } catch (const quire::sim::Failure& failure) {
    fmt::print("{}\n", failure.what);
    return kBroken;
  }
}

int LiveAll(const std::vector<uint64_t>& seeds, size_t num_threads, Outcome& sum) {
  std::atomic<size_t> next{0};
  std::atomic<int> status{0};
  std::vector<Outcome> totals(num_threads);
  std::vector<std::thread> threads;
  for (auto& total : totals) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < seeds.size() && status == 0; i = next++) {
        if (const int how = Live(seeds[i], total); how != 0) status = how;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Outcome& total : totals) {
    for (const Count& count : kCounts) sum.*count.field += total.*count.field;
  }
  return status;
}

/// Returns false when an event that must happen in a thousand runs was too rare.
bool HappensOften(const Outcome& sum, size_t num_seeds) {
  bool often = true;
  for (const Count& count : kCounts) {
    const double least = count.least * static_cast<double>(num_seeds) / 1000;
    if (static_cast<double>(sum.*count.field) >= least) continue;
    fmt::print(stderr, "{}: {}, at least {:.0f} are due\n", count.what, sum.*count.field, least);
    often = false;
  }
  return often;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) ::signal(signal, OnSignal);
  if (argc == 3 && std::string(argv[1]) == "--narrate") return Narrate(std::strtoull(argv[2], nullptr, 10));
  std::vector<uint64_t> seeds;
  const bool kept = argc == 3 && std::string(argv[1]) == "--kept";
  if (kept) {
    seeds = KeptSeeds(argv[2]);
  } else if (argc >= 3) {
    for (uint64_t i = 0; i < std::strtoull(argv[2], nullptr, 10); ++i)
      seeds.push_back(std::strtoull(argv[1], nullptr, 10) + i);
    quire::sim::active_mutant = argc > 3 ? std::atoi(argv[3]) : 0;
  } else {
    fmt::print(stderr, "usage: sim FIRST COUNT [MUTANT] | sim --narrate SEED | sim --kept FILE\n");
    return kUsage;
  }
  Outcome sum;
  const int status = LiveAll(seeds, argc > 3 ? 1 : 2, sum);
  fmt::print("{} seeds:", seeds.size());
  for (const Count& count : kCounts)
    fmt::print("{}{} {}", &count == kCounts ? " " : ", ", sum.*count.field, count.what);
  fmt::print("\n");
  if (status != 0) return status;
  return !kept && seeds.size() >= 1000 && !HappensOften(sum, seeds.size()) ? kBroken : 0;
}
