#include "comm/model/model_tree.h"

#include <algorithm>
#include <filesystem>

#include "comm/base/error.h"

namespace quire {

namespace fs = std::filesystem;

ModelTree::ModelTree(const std::string& directory) : directory_(directory) {
  std::error_code error;
  const fs::path real = fs::canonical(directory, error);
  if (error || !fs::is_directory(real, error)) Fail("{}: no such directory", directory);
  roots_.push_back((real / "").string());
  if (real.parent_path().filename() != "snapshots") return;
  // The folder of blobs may be a link to another, larger disk.
  const fs::path blobs = fs::canonical(real.parent_path().parent_path() / "blobs", error);
  if (!error) roots_.push_back((blobs / "").string());
}

bool ModelTree::Has(const std::string& name) const {
  std::error_code error;
  return fs::symlink_status(PathOf(name), error).type() != fs::file_type::not_found;
}

std::string ModelTree::PathOf(const std::string& name) const { return (fs::path(directory_) / name).string(); }

RegularFile ModelTree::Open(const std::string& name) const {
  RegularFile file = RegularFile::Open(PathOf(name), RegularFile::Links::kFollowed);
  // Checks the path of the opened file, because a link may change after a check of its path.
  const std::string real = file.RealPath();
  if (std::ranges::none_of(roots_, [&](const std::string& root) { return real.starts_with(root); }))
    Fail("{} leads out of the model's directory, to {}: copy that file into the directory", file.path(), real);
  return file;
}

std::string ModelTree::ReadText(const std::string& name, size_t max_bytes) const {
  return Open(name).ReadAll(max_bytes);
}

}  // namespace quire
