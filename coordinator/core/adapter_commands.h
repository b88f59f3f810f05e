#pragma once

namespace quire::command {

// The commands about LoRA adapters that are loaded while serving (command.h).

struct AdapterCame {
  int adapter;
};
struct AdapterGone {
  int adapter;
};

}  // namespace quire::command
