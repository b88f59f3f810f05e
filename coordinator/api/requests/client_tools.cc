#include "coordinator/api/requests/client_tools.h"

#include <algorithm>
#include <cctype>

#include "comm/base/exact_json.h"

namespace quire {

namespace {

struct ClientTool {
  std::string_view family;
  const char *description, *parameters;
};

constexpr ClientTool kClientTools[] = {
    {"bash", "Runs a command in a shell that lives on between calls, and gives what the command writes.",
     R"({"type": "object", "properties": {
        "command": {"type": "string", "description": "The command; needed unless restart is true."},
        "restart": {"type": "boolean", "description": "True starts the shell anew."}}})"},
    {"text_editor", "Looks at files, makes files and changes them.",
     R"({"type": "object", "properties": {
        "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
        "path": {"type": "string", "description": "The file, or for view a folder."},
        "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                       "description": "Of view: the first and the last line, from 1 on; -1 is the end."},
        "file_text": {"type": "string", "description": "Of create: the whole text."},
        "old_str": {"type": "string", "description": "Of str_replace: a text that is in the file once."},
        "new_str": {"type": "string", "description": "Of str_replace and of insert: the text that comes there."},
        "insert_text": {"type": "string", "description": "Of insert: the same as new_str."},
        "insert_line": {"type": "integer", "description": "Of insert: the line behind which; 0 is the beginning."}},
        "required": ["command", "path"]})"},
    {"memory", "Keeps notes in files below /memories, which last beyond this conversation.",
     R"({"type": "object", "properties": {
        "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
        "path": {"type": "string", "description": "The file or folder; of all commands but rename."},
        "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                       "description": "Of view: the first and the last line, from 1 on."},
        "file_text": {"type": "string", "description": "Of create: the whole text."},
        "old_str": {"type": "string", "description": "Of str_replace: a text that is in the file once."},
        "new_str": {"type": "string", "description": "Of str_replace: the text that comes in its place."},
        "insert_line": {"type": "integer", "description": "Of insert: the line behind which; 0 is the beginning."},
        "insert_text": {"type": "string", "description": "Of insert: the text that comes there."},
        "old_path": {"type": "string", "description": "Of rename: what it is called."},
        "new_path": {"type": "string", "description": "Of rename: what it is to be called."}},
        "required": ["command"]})"},
};

}  // namespace

bool IsOfFamily(std::string_view type, std::string_view family) {
  if (!type.starts_with(family) || type.size() < family.size() + 2 || type[family.size()] != '_') return false;
  return std::ranges::all_of(type.substr(family.size() + 1), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<OrderedJson> ClientToolOf(std::string_view type) {
  for (const ClientTool& tool : kClientTools) {
    if (IsOfFamily(type, tool.family))
      return OrderedJson{{"description", tool.description}, {"parameters", ParseExactJson(tool.parameters)}};
  }
  return std::nullopt;
}

}  // namespace quire
