#pragma once

namespace quire {

/// The way in which a request's blocks travel from one engine's workers to another engine's workers.
enum class MigrationWay {
  kHost,   // all computed blocks and states: swapped out, copied between host memories, and swapped in
  kDevice  // only full blocks: copied between device pools into the prefix cache while the request runs
};

}  // namespace quire
