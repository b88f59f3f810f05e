#pragma once

#include <functional>
#include <string>

#include "coordinator/text/templates/conversation.h"

namespace quire {

/// The parts of a conversation that a template shows, and the forms in which it expects these parts.
struct TemplateTraits {
  bool tools = false;         // shows the offered tools
  bool tool_calls = false;    // shows calls of earlier answers
  bool tool_results = false;  // shows messages of the role tool
  bool shows_system = false;  // shows a system message in front
  /// text_arguments: the template expects calls' arguments as text, not as objects. null_content: the template expects
  /// null content beside calls.
  bool text_arguments = false, null_content = false;
  bool object_arguments = false;   // accepts only arguments that are a JSON object
  bool one_call = false;           // an answer may have only one call
  bool words_apart = false;        // text beside calls hides the calls; it must be a separate answer
  bool words_or_thoughts = false;  // beside calls, shows text or thoughts, not both
  bool system_first = false;       // accepts a system message only as the first message
  bool short_ids = false;          // ids of calls are nine letters and digits
  bool named_ids = false;          // ids of calls name their functions: functions.NAME:0, counted over all calls
  bool system_tools = false;       // tools are a text in the system message's member `tools`
  bool answered_results = false;   // requires an answer between a call and the next question
  bool speaking_answers = false;   // requires text in an answer without calls
  bool whole_tools = false;        // requires a function's description, and parameters with properties
  bool whole_properties = false;   // requires a property's description, a type of one word, and the type's parts
};

/// Finds the traits by rendering small conversations. render: renders as the template does, without adapting the
/// conversation; throws Error if the template refuses it. of_tools: the template may show tools and calls; if false,
/// traits about tools are not tested.
TemplateTraits FindTraits(const std::function<std::string(const Conversation&)>& render, bool of_tools);

}  // namespace quire
