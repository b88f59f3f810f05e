#pragma once

#include <functional>
#include <string>

#include "coordinator/text/templates/conversation.h"

namespace quire {

/// Tells which parts of a conversation a template shows and in which form the template expects them.
struct TemplateTraits {
  bool tools = false;         // shows the offered tools
  bool tool_calls = false;    // shows calls of earlier answers
  bool tool_results = false;  // shows turns of the role tool
  bool shows_system = false;  // shows a system message in front
  /// text_arguments: expects calls' arguments as text, not as objects. null_content: expects null content beside calls.
  bool text_arguments = false, null_content = false;
  bool object_arguments = false;   // arguments that are a JSON object, and no others
  bool one_call = false;           // an answer has one call
  bool words_apart = false;        // text beside calls hides the calls; it must be a separate answer
  bool words_or_thoughts = false;  // beside calls, words or thoughts are shown, not both
  bool system_first = false;       // words of the system come first, and nowhere else
  bool short_ids = false;          // ids of calls are nine letters and digits
  bool named_ids = false;          // ids of calls name their functions: functions.NAME:0, counted over all calls
  bool system_tools = false;       // tools are a text in the system message's member `tools`
  bool answered_results = false;   // between a call and the next question stands an answer
  bool speaking_answers = false;   // an answer without calls has words
  bool whole_tools = false;        // a function has a description, and parameters with properties
  bool whole_properties = false;   // a property has a description, and a type that is one word, with all of its parts
};

/// Finds the traits by rendering small conversations. render: renders as the template does, without adapting the
/// conversation; throws Error where the template refuses. of_tools: the template may show tools and calls; otherwise no
/// traits of tools are tested.
TemplateTraits FindTraits(const std::function<std::string(const Conversation&)>& render, bool of_tools);

}  // namespace quire
