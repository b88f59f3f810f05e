#include "worker/serve/memory_plan.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "worker/serve/assigned_model.h"
#include "worker/serve/assigned_sizes.h"
#include "worker/serve/backend.h"

namespace quire {

namespace {

AssignMessage ReadAssignment(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Frame frame;
  if (!file || bytes.size() < sizeof(frame.header)) Fail("{}: no assignment", path);
  std::memcpy(&frame.header, bytes.data(), sizeof(frame.header));
  const auto* body = reinterpret_cast<const std::byte*>(bytes.data());
  frame.body.assign(body + sizeof(frame.header), body + bytes.size());
  Message message = Decode(frame);
  auto* assign = std::get_if<AssignMessage>(&message);
  if (assign == nullptr) Fail("{}: another message than an assignment", path);
  return std::move(*assign);
}

}  // namespace

int RunMemoryPlan(const std::string& assignment_file) {
  const AssignMessage assign = ReadAssignment(assignment_file);
  const ModelFiles files = ModelFiles::Open(assign.model_path, assign.load_format, assign.adapters);
  EngineSizes sizes = AssignedSizes(assign);
  const std::optional<ModelFiles> draft = OpenAssignedDraft(assign);
  if (draft) sizes.draft.files = &*draft;
  Json ranks = Json::array();
  for (const RankMemory& rank : MemoryOfRanks(files, sizes, assign))
    ranks.push_back({{"weight_bytes", rank.weight_bytes},
                     {"block_bytes", rank.block_bytes},
                     {"state_bytes", rank.state_bytes},
                     {"reserved_bytes", rank.reserved_bytes},
                     {"process_bytes", rank.working.process_bytes},
                     {"step_bytes", rank.working.step_bytes},
                     {"file_bytes", rank.working.file_bytes}});
  fmt::print("{}\n", DumpJson(ranks));
  return 0;
}

}  // namespace quire
