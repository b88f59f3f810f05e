#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

namespace quire {

/// The tools of /v1/responses. To the model, tools of all kinds are functions in one list.

/// A tool as the client knows it. The model sees the tool under another name, or as another kind of tool.
struct ResponseTool {
  enum Kind {
    kFunction,
    kCustom,  // takes a text; the model sees a function with one argument, kCustomInput
    kSearch,  // tool_search, executed by the client
  };
  Kind kind = kFunction;
  std::string name;
  std::string name_space;  // empty: none

  bool operator==(const ResponseTool&) const = default;
};
/// Tools, keyed by the name that the model sees. A name that is not in the map belongs to a plain function.
using ResponseTools = std::map<std::string, ResponseTool>;

inline constexpr const char* kCustomInput = "input";
inline constexpr const char* kToolSearch = "tool_search";

/// Returns the name under which the model sees a tool: NAMESPACE__NAME, or NAME if the namespace is empty.
std::string ShownToolName(const std::string& name_space, const std::string& name);

/// The tools of a request, from its `tools` and from items of its input.
class OfferedTools {
 public:
  /// Adds the tools in the list `name` of `holder`. Tools that a provider would execute are left out, with one line in
  /// the log per type. A tool whose name exists already is skipped if `again` is true, otherwise refused. Throws
  /// ApiError for unknown types and bad values. Returns the names under which the model may call the tools, each name
  /// once.
  std::vector<std::string> Add(const JsonObject& holder, const char* name, bool again);

  /// Returns the chat request's tool_choice, and removes tools that the tool_choice does not allow. Throws ApiError for
  /// a tool that does not exist.
  OrderedJson Choose(const JsonObject& body);

  const OrderedJson& chat() const { return chat_; }
  ResponseTools& known() { return known_; }

 private:
  void AddTool(const JsonObject& tool, const std::string& name_space, bool again);
  void AddFunction(const JsonObject& tool, const std::string& name_space, bool again);
  void AddCustom(const JsonObject& tool, const std::string& name_space, bool again);
  void AddSearch(const JsonObject& tool, bool again);
  void Put(const JsonObject& tool, OrderedJson function, ResponseTool known, bool again);
  bool Shows(const std::string& name) const;
  std::string NameOfChoice(const JsonObject& choice) const;
  void Keep(const std::vector<std::string>& names);

  OrderedJson chat_ = OrderedJson::array();
  ResponseTools known_;
  std::vector<std::string> met_;  // names of the list that is being added
};

/// Returns about how many bytes of memory `tools` takes.
int64_t BytesOf(const ResponseTools& tools);

/// Returns the text argument of a custom tool's call. `arguments`: the call's arguments as JSON, which may have been
/// cut off. Returns `arguments` itself if it has no such text.
std::string CustomInputOf(const std::string& arguments);

}  // namespace quire
