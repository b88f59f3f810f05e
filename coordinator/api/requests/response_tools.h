#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/requests/json_object.h"

namespace quire {

/// Tools of /v1/responses that are more than functions. The model is shown all of them as functions of one list.

/// How clients know a tool that the model is shown under another name or as something else.
struct ResponseTool {
  enum Kind {
    kFunction,
    kCustom,  // takes a text; the model is shown a function with one argument, kCustomInput
    kSearch,  // tool_search that the client executes
  };
  Kind kind = kFunction;
  std::string name;
  std::string name_space;  // empty: none

  bool operator==(const ResponseTool&) const = default;
};
/// By the name that the model is shown. A name that is not here is that of a plain function.
using ResponseTools = std::map<std::string, ResponseTool>;

inline constexpr const char* kCustomInput = "input";
inline constexpr const char* kToolSearch = "tool_search";

/// The name under which the model is shown a tool of a namespace; an empty namespace is none.
std::string ShownToolName(const std::string& name_space, const std::string& name);

/// Tools of a request, from its `tools` and from items of its input.
class OfferedTools {
 public:
  /// Adds the list `name` of the object. Tools that a provider would run itself are left out, with a line in the log
  /// for each of their types. A tool that is there already under the same name is passed over where `again` says so,
  /// and refused otherwise. Throws ApiError for types that nobody knows, and for what is wrong.
  void Add(const JsonObject& holder, const char* name, bool again);

  /// The chat request's tool_choice; tools that it does not allow are taken away. Throws ApiError for a choice of what
  /// is not here.
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
};

/// Bytes that the names take.
int64_t BytesOf(const ResponseTools& tools);

/// What the model wrote into the argument of a custom tool, from the text of all arguments, which may be cut.
std::string CustomInputOf(const std::string& arguments);

}  // namespace quire
