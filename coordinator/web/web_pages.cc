#include "coordinator/web/web_pages.h"

#include <algorithm>

#include "coordinator/web/web_texts.h"

namespace quire {

namespace {

constexpr std::string_view kPrefix = "/web/", kShared = "shared/";

std::string_view FolderOf(WebPage page) { return page == WebPage::kDashboard ? "dashboard/" : "chat/"; }

bool IsPath(WebPage page, std::string_view path) { return path == "/" || (page == WebPage::kChat && path == "/chat"); }

/// Returns the path in web/pages/ of the file for the request path `path`; empty when `path` does not belong to the
/// page.
std::string FileOf(WebPage page, std::string_view path) {
  if (IsPath(page, path)) return std::string(FolderOf(page)) + "index.html";
  if (!path.starts_with(kPrefix)) return "";
  path.remove_prefix(kPrefix.size());
  const bool own = path.starts_with(FolderOf(page)) || path.starts_with(kShared);
  return own ? std::string(path) : "";
}

std::string TypeOf(std::string_view file) {
  if (file.ends_with(".html")) return "text/html; charset=utf-8";
  if (file.ends_with(".css")) return "text/css; charset=utf-8";
  if (file.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (file.ends_with(".txt")) return "text/plain; charset=utf-8";
  return "image/svg+xml";
}

/// Returns the headers that protect a page: they allow scripts, styles, pictures and connections of this server only,
/// forbid frames around the page, and tell browsers not to send referrers.
const std::vector<std::pair<std::string, std::string>>& Protections() {
  static const std::vector<std::pair<std::string, std::string>> headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-cache"}};
  return headers;
}

}  // namespace

std::vector<std::string> WebPaths(WebPage page) {
  std::vector<std::string> paths = {"/"};
  if (page == WebPage::kChat) paths.push_back("/chat");
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.path.starts_with(FolderOf(page)) || file.path.starts_with(kShared))
      paths.push_back(std::string(kPrefix) + std::string(file.path));
  }
  return paths;
}

HttpResponse OpenApiDocument() {
  const auto files = EmbeddedFiles();
  const auto document = std::ranges::find(files, std::string_view("openapi.json"), &EmbeddedFile::path);
  return {.content_type = "application/json", .fixed = document->content};
}

HttpResponse WebFile(WebPage page, std::string_view path) {
  const std::string wanted = FileOf(page, path);
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.path != wanted) continue;
    return {.content_type = TypeOf(file.path), .headers = Protections(), .fixed = file.content};
  }
  return ErrorResponse(404, "no such file");
}

}  // namespace quire
