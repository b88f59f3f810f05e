// Plants bugs in latent attention with latent_bugs.py. The emulator or the comparison with the reference must find each
// of them.
#include <gtest/gtest.h>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/latent_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

std::vector<LatentShape> Shapes() {
  return {
      {.chunks = {{5, 5}, {1, 33}, {2, 0}, {30, 70}}, .resident_table = true},
      {.fp8_cache = true, .block_size = 64, .chunks = {{3, 75}}, .tile_rows = 16},
      {.heads = 2, .chunks = {{3, 1100}, {2, 20}}, .num_ctas = 4},
      // One thread block has several items, of which the first ones have a single tile each, and long contexts are
      // split.
      {.decodes = true,
       .heads = 20,
       .chunks = {{1, 20}, {1, 0}, {1, 33}, {1, 1100}},
       .num_ctas = 4,
       .resident_table = true},
      {.decodes = true, .heads = 2, .chunks = {{1, 20}}, .num_ctas = 1, .first_block = 260'000},
      {.dtype = NumberType::kF32, .rotated_dim = 16, .rank = 64, .chunks = {{9, 75}}},
      {.dtype = NumberType::kF32, .chunks = {{1, 20}}, .first_block = 260'000},
  };
}

/// Describes the first wrong launch; empty if there is none.
std::string Hunt() {
  uint64_t seed = 1;
  try {
    for (const LatentWriteShape& shape : {LatentWriteShape{}, {.fp8_cache = true}}) {
      if (std::string wrong = WrongWrites(shape, ++seed); !wrong.empty()) return wrong;
    }
    for (const LatentShape& shape : Shapes()) {
      const LatentCase c(shape, ++seed);
      const simt::WithOptions options({.seed = seed});
      c.Run();
      if (std::string wrong = c.Wrong(); !wrong.empty()) return wrong;
    }
  } catch (const simt::SimtError& error) {
    return error.what();
  }
  return "";
}

TEST(LatentBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

}  // namespace
}  // namespace quire::kernels
