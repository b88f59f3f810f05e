// Runs a fuzz target without a fuzzer: every input of its corpus, then a fixed number of mutations, the same in each
// run. An input that takes too much processor time or memory counts as a finding, like a crash.
// replay_TARGET CORPUS_FOLDER DICTIONARY|- MUTATIONS MAX_BYTES
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> ReadCorpus(const fs::path& folder) {
  std::vector<fs::path> paths(fs::directory_iterator(folder), {});
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const fs::path& path : paths) inputs.push_back(ReadFile(path));
  return inputs;
}

/// Reads the words of a libFuzzer dictionary: one "word" in each line, with the escapes \\, \" and \xHH.
std::vector<std::string> ReadDictionary(const fs::path& path) {
  std::vector<std::string> words;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (line.starts_with("#") || begin == end) continue;
    std::string word;
    for (size_t i = begin + 1; i < end; ++i) {
      if (line[i] != '\\') {
        word += line[i];
      } else if (line[++i] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

constexpr time_t kSecondsPerInput = 5;  // processor time, so other load does not matter
#ifndef __SANITIZE_ADDRESS__            // AddressSanitizer takes address space by the terabyte
constexpr rlim_t kMaxBytes = rlim_t{1} << 30;
#else
constexpr rlim_t kMaxBytes = RLIM_INFINITY;
#endif

/// Returns the running input, for the message after a crash. Signal handlers can reach only static data.
const std::string*& Running() {
  static const std::string* input = nullptr;
  return input;
}

void KeepInput(int signal) {
  const std::string& input = *Running();
  if (signal == SIGVTALRM) std::fputs("the input takes too long\n", stderr);
  if (FILE* out = std::fopen("crash-input", "wb")) {
    std::fwrite(input.data(), 1, input.size(), out);
    std::fclose(out);
    std::fputs("the input is in ./crash-input\n", stderr);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void RunOne(const std::string& input) {
  Running() = &input;
  const itimerval limit = {{0, 0}, {kSecondsPerInput, 0}};
  ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  // Uses a copy of exactly the input's size, so that sanitizers notice an access beyond its end.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: {} CORPUS DICTIONARY|- MUTATIONS MAX_BYTES\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGVTALRM}) std::signal(signal, KeepInput);
  std::set_terminate([] {
    std::fputs("an exception got out, or memory ran out\n", stderr);
    std::abort();
  });
  const rlimit memory = {kMaxBytes, kMaxBytes};
  ::setrlimit(RLIMIT_AS, &memory);
  const std::vector<std::string> corpus = ReadCorpus(argv[1]);
  if (corpus.empty()) {
    fmt::print(stderr, "{}: no inputs\n", argv[1]);
    return 1;
  }
  for (const std::string& input : corpus) RunOne(input);
  const int mutations = std::stoi(argv[3]);
  constexpr uint64_t kSeed = 6;
  quire::fuzz::Mutator mutator(
      corpus, std::strcmp(argv[2], "-") == 0 ? std::vector<std::string>{} : ReadDictionary(argv[2]), kSeed);
  for (int i = 0; i < mutations; ++i) RunOne(mutator.Next(std::stoul(argv[4])));
  fmt::print("{} inputs and {} mutations\n", corpus.size(), mutations);
  return 0;
}
