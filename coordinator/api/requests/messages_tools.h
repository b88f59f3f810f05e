#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/requests/json_object.h"

namespace quire {

/// The tools of a request of the Messages API. Some are shown to the model before the conversation. Others are
/// deferred: the conversation's words describe them where it loads them, so that what stands before stays as it was and
/// is found in the cache. What a provider would run is left out, and the log says so.
class MessagesTools {
 public:
  /// Reads `tools` and `mcp_servers`. Throws ApiError for what is wrong or cannot be done.
  void Read(const JsonObject& body);
  /// Reads `tool_choice` into the chat request, after the conversation has been read.
  void AddChoice(const JsonObject& choice, OrderedJson& chat);

  // What the conversation says of tools. Each gives the words that tell the model.
  /// A tool is there from now on. Its definition is written the first time only, so that the words never outgrow what
  /// the client sent by more than a sentence for each block.
  std::string Load(const std::string& name);
  /// A tool that is defined in the conversation, also in place of one of the same name.
  std::string Define(const JsonObject& definition);
  std::string Remove(const std::string& name);

  /// Lists of OpenAI's objects: what the model is shown before the conversation, and what it may call.
  OrderedJson Shown() const;
  OrderedJson Callable() const;

 private:
  struct Entry {
    std::string name;
    OrderedJson shown, callable, deferred;  // OpenAI's objects; null: it is not
    bool told = false;                      // the conversation's words hold the definition
  };

  void ReadTool(const JsonObject& tool, bool defers);
  bool LeavesOut(const JsonObject& tool, const std::string& type);
  Entry* Find(const std::string& name);
  Entry& AddEntry(Entry entry);

  std::vector<Entry> entries_;
  std::map<std::string, size_t> places_;  // in entries_, by name: a client may defer thousands of tools
  std::set<std::string> of_provider_;  // names of tools that are left out
};

}  // namespace quire
