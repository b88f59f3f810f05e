#pragma once

namespace quire::command {

// The engine's commands about LoRA adapters that are loaded while the server runs (command.h says how commands work).

struct AdapterCame {
  int adapter;
};
struct AdapterGone {
  int adapter;
};

}  // namespace quire::command
