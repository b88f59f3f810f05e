#pragma once

namespace quire {

/// The way in which a request's blocks travel from one engine's workers to another engine's workers.
enum class MigrationWay {
  kHost,   // swapped out, copied between host memories, and swapped in: all computed tokens, states included
  kDevice  // copied between device pools into the prefix cache while the request runs: only full blocks
};

}  // namespace quire
