#pragma once

#include <span>
#include <string_view>

namespace quire {

/// A file of web/pages/, as the build put it into the program (embed.cmake).
struct EmbeddedFile {
  std::string_view path;  // in that folder: "dashboard/index.html"
  std::string_view content;
};
std::span<const EmbeddedFile> EmbeddedFiles();

}  // namespace quire
