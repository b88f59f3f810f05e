#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/http/http_types.h"

namespace quire {

/// The pages that the ports serve. A page consists of the files of its folder and of the shared folder. Pages load no
/// files from other sites, and headers make browsers enforce this.
enum class WebPage { kDashboard, kChat };

/// The route of all pages' files except the pages themselves: each page is at "/" of its port, and the chat page also
/// at "/chat".
inline constexpr const char* kWebFiles = "/web/*";

/// Returns all paths at which the page and its files are served.
std::vector<std::string> WebPaths(WebPage page);
/// Returns a response with the page's file at this path; status 404 for any other path.
HttpResponse WebFile(WebPage page, std::string_view path);

/// Returns the OpenAPI document of the data port's endpoints.
HttpResponse OpenApiDocument();

}  // namespace quire
