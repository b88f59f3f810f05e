#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api/http/http_types.h"

namespace quire {

/// The pages that the ports serve. A page is the files of its folder and those that pages share; it loads nothing from
/// anywhere else, and the browser is told to hold it to that.
enum class WebPage { kDashboard, kChat };

/// Where the files of all pages are, besides the page itself at "/" ("/chat" for the chat page, too).
inline constexpr const char* kWebFiles = "/web/*";

/// Every path of a page's files.
std::vector<std::string> WebPaths(WebPage page);
/// One of them; 404 for any other path.
HttpResponse WebFile(WebPage page, std::string_view path);

/// What the data port's endpoints take and give, as an OpenAPI document.
HttpResponse OpenApiDocument();

}  // namespace quire
