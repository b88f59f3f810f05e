#pragma once

namespace quire::command {

// Engine commands for LoRA adapters that are loaded while the server runs. command.h describes commands in general.

struct AdapterCame {
  int adapter;
};
struct AdapterGone {
  int adapter;
};

}  // namespace quire::command
