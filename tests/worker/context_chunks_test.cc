#include "worker/cpu/context_chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;

/// Returns the inputs of three sequences with new tokens: tokens 3 to 9 of the first, token 8 of the second, and tokens
/// 4 to 7 of the third.
StepInputs ThreeSequences() {
  StepInputs inputs;
  inputs.query_start = {0, 7, 8, 12};
  inputs.context_len = {10, 9, 8};
  inputs.block_tables = {1, 2, 3, 4, 5, 6};
  inputs.table_stride = 2;
  return inputs;
}

TEST(ContextChunksTest, Parts_EndWhereChunksEnd_AndSeeTheirChunkAlone) {
  ContextChunks chunks;
  for (int again = 0; again < 2; ++again) {
    chunks.Cut(ThreeSequences(), 4);
    EXPECT_EQ(chunks.num_parts(), 5);
    EXPECT_THAT(chunks.query_start, ElementsAre(0, 1, 5, 7, 8, 12));
    EXPECT_THAT(chunks.context_len, ElementsAre(4, 8, 10, 9, 8));
    EXPECT_THAT(chunks.context_begin, ElementsAre(0, 4, 8, 8, 4));
    EXPECT_THAT(chunks.block_tables, ElementsAre(1, 2, 1, 2, 1, 2, 3, 4, 5, 6));
  }
}

TEST(ContextChunksTest, Sequences_AreWhole_WhenAChunkIsLongerThanTheirContexts) {
  const StepInputs inputs = ThreeSequences();
  ContextChunks chunks;
  chunks.Cut(inputs, 100);
  EXPECT_EQ(chunks.query_start, inputs.query_start);
  EXPECT_EQ(chunks.context_len, inputs.context_len);
  EXPECT_EQ(chunks.block_tables, inputs.block_tables);
  EXPECT_THAT(chunks.context_begin, ElementsAre(0, 0, 0));
}

TEST(ContextChunksTest, ContextOfAPart_BeginsWithTheSequencesContext_WhenThatBeginsWithinTheChunk) {
  StepInputs inputs = ThreeSequences();
  inputs.context_begin = {2, 3, 0};
  ContextChunks chunks;
  chunks.Cut(inputs, 4);
  EXPECT_THAT(chunks.context_begin, ElementsAre(2, 4, 8, 8, 4));
}

}  // namespace
}  // namespace quire
