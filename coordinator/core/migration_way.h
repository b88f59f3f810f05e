#pragma once

namespace quire {

/// How the blocks of a request go from one engine's workers to another's.
enum class MigrationWay {
  kHost,   // taken out, from host memory to host memory, and swapped in: all that was computed, states included
  kDevice  // from pool to pool, where they become part of the prefix cache: full blocks, while the request goes on
};

}  // namespace quire
