#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/text/jinja/value.h"

namespace quire::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// An expression; the comments say which members each kind uses.
struct Expression {
  enum class Kind {
    kLiteral,      // value
    kName,         // text
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0].text
    kSubscript,    // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1] : operands[2] : operands[3]]; missing bounds are null
    kCall,         // operands[0](operands[1..], named)
    kFilter,       // operands[0] | text(operands[1..], named)
    kTest,         // operands[0] is text(operands[1..])
    kUnary,        // text operands[0]
    kBinary,       // operands[0] text operands[1]; "and", "or", arithmetic, "~"
    kComparison,   // operands[0] operators[0] operands[1] operators[1] ...: each operator compares its neighbours
    kConditional,  // operands[0] if operands[1] else operands[2] (may be null)
  };
  Kind kind;
  int line = 0;
  int height = 1;  // height of the tree below
  std::string text;
  Value value;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

/// The name under which the filter expression of a block reads the block's rendered body. Templates cannot write an
/// empty name.
inline constexpr const char* kRenderedBody = "";

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind {
    kText,    // text
    kPrint,   // expression
    kIf,      // branches: condition (null for else) and body
    kFor,     // targets in expression, if condition: body; if there were no items: otherwise
    kSet,     // targets (or target.attribute) = expression; as a block: rendered body, perhaps filtered by expression
    kFilter,  // expression applied to the rendered body
    kWith,    // parameters: body
    kMacro,   // text(parameters): body
    kBreak,
    kContinue,
  };
  Kind kind;
  int line = 0;
  std::string text;
  ExpressionPtr expression, condition;
  std::vector<std::string> targets;
  std::string attribute;  // set on a namespace: the attribute's name
  bool is_block = false;  // set: the value is the rendered body, which may be empty
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // names with their defaults or null; for kWith with
                                                                  // values
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body body, otherwise;
};

/// Parses a template. Throws Error "template:line: reason" for wrong syntax and for anything unsupported.
Body Parse(std::string_view source);

}  // namespace quire::jinja
