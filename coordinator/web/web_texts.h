#pragma once

#include <span>
#include <string_view>

namespace quire {

/// A file of web/pages/ that the build embeds into the program (embed.cmake).
struct EmbeddedFile {
  std::string_view path;  // relative to web/pages/, for example "dashboard/index.html"
  std::string_view content;
};
std::span<const EmbeddedFile> EmbeddedFiles();

}  // namespace quire
