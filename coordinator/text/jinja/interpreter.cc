#include "coordinator/text/jinja/interpreter.h"

#include <algorithm>
#include <iterator>

#include "comm/base/error.h"
#include "coordinator/text/jinja/builtins.h"
#include "coordinator/text/jinja/globals.h"

namespace quire::jinja {

namespace {

using EKind = Expression::Kind;
using SKind = Statement::Kind;

constexpr size_t kLoopTurnWork = 10;  // units, for setting the loop variable

enum class Flow { kNormal, kBreak, kContinue };

class Interpreter {
 public:
  Interpreter(const std::map<std::string, Value>& variables, const Limits& limits) : budget_(limits) {
    scopes_.push_back(Globals(budget_));
    scopes_.push_back(variables);
  }

  MarkedText Run(const Body& body) {
    MarkedText out;
    Execute(body, out);
    return out;
  }

 private:
  // --- statements ---

  Flow Execute(const Body& body, MarkedText& out) {
    for (const auto& statement : body) {
      const Flow flow = Execute(*statement, out);
      if (flow != Flow::kNormal) return flow;
    }
    return Flow::kNormal;
  }

  /// Executes a statement and appends its output. Each level of nesting takes a stack frame of this function.
  /// Statements that need large local variables therefore have functions of their own, which are not inlined.
  Flow Execute(const Statement& s, MarkedText& out) {
    const Budget::Level level(budget_);
    line_ = s.line;
    budget_.Work(1);
    switch (s.kind) {
      case SKind::kText:
        Emit(MarkedText(s.text, MarkedText::kTrusted), out);
        break;
      case SKind::kPrint:
        Emit(*Evaluate(*s.expression).ToText(budget_), out);
        break;
      case SKind::kSet:
        Set(s);
        break;
      case SKind::kMacro:
        DefineMacro(s);
        break;
      case SKind::kBreak:
        return Flow::kBreak;
      case SKind::kContinue:
        return Flow::kContinue;
      case SKind::kFor:
        return For(s, out);
      case SKind::kFilter:
        Emit(*Filtered(s).ToText(budget_), out);
        break;
      case SKind::kWith:
        return With(s, out);
      case SKind::kIf:
        for (const auto& [condition, body] : s.branches) {
          if (condition == nullptr || Evaluate(*condition).Truthy()) return Execute(body, out);
        }
        break;
    }
    return Flow::kNormal;
  }

  void Emit(const MarkedText& text, MarkedText& out) {
    budget_.MakeText(text.text.size());
    budget_.CheckOutput(out.text.size() + text.text.size());
    out += text;
  }

  [[gnu::noinline]] void Set(const Statement& s) {
    const Value value = s.is_block ? Filtered(s) : Evaluate(*s.expression);
    if (!s.attribute.empty()) {
      const Value target = Lookup(s.targets[0]);
      if (target.AsDict() == nullptr || !target.AsDict()->is_object) Fail("{} is no namespace", s.targets[0]);
      // The template's variable and `target` are two holders of this object. Only if the object has more holders can
      // one of them be inside `value`.
      if (target.num_holders() > 2 && value.Reaches(target.AsDict(), budget_))
        Fail("{} would hold itself", s.targets[0]);
      target.AsDict()->Set(s.attribute, value, budget_);
      return;
    }
    Assign(s.targets, value, scopes_.back());
  }

  /// Renders a block's body to a text and applies the block's filters.
  [[gnu::noinline]] Value Filtered(const Statement& s) {
    MarkedText text;
    scopes_.emplace_back();
    Execute(s.body, text);
    Value value(std::move(text));
    if (s.expression != nullptr) {
      scopes_.back()[kRenderedBody] = value;
      value = Evaluate(*s.expression);
    }
    scopes_.pop_back();
    return value;
  }

  [[gnu::noinline]] Flow With(const Statement& s, MarkedText& out) {
    Scope scope;
    budget_.MakeItems(s.parameters.size());
    for (const auto& [name, value] : s.parameters) scope[name] = Evaluate(*value);
    scopes_.push_back(std::move(scope));
    const Flow flow = Execute(s.body, out);
    scopes_.pop_back();
    return flow;
  }

  void Assign(const std::vector<std::string>& targets, const Value& value, Scope& scope) {
    budget_.Work(targets.size());
    if (targets.size() == 1) {
      scope[targets[0]] = value;
      return;
    }
    const List parts = Items(value, budget_);
    if (parts.size() != targets.size()) Fail("{} values for {} names", parts.size(), targets.size());
    for (size_t i = 0; i < parts.size(); ++i) scope[targets[i]] = parts[i];
  }

  [[gnu::noinline]] Flow For(const Statement& s, MarkedText& out) {
    List items = Items(Evaluate(*s.expression), budget_);
    if (s.condition != nullptr) {
      List kept;
      for (const Value& item : items) {
        scopes_.emplace_back();
        Assign(s.targets, item, scopes_.back());
        if (Evaluate(*s.condition).Truthy()) kept.push_back(item);
        scopes_.pop_back();
      }
      items = std::move(kept);
    }
    if (items.empty()) return Execute(s.otherwise, out);
    Value loop;
    for (size_t i = 0; i < items.size(); ++i) {
      line_ = s.line;
      SetLoopVariable(items, i, loop);
      scopes_.emplace_back();
      scopes_.back()["loop"] = loop;
      Assign(s.targets, items[i], scopes_.back());
      const Flow flow = Execute(s.body, out);
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kNormal;
  }

  /// Sets the variable `loop` for item i. Reuses the mapping of the previous item unless the template still holds that
  /// mapping.
  void SetLoopVariable(const List& items, size_t i, Value& loop) {
    budget_.Work(kLoopTurnWork);
    if (loop.num_holders() != 1) {
      budget_.MakeItems(3 * kLoopTurnWork);
      loop = Value(Dict());
      loop.AsDict()->is_object = true;
    }
    const auto index = static_cast<int64_t>(i), size = static_cast<int64_t>(items.size());
    loop.AsDict()->entries = {{"index", Value(index + 1)},
                              {"index0", Value(index)},
                              {"revindex", Value(size - index)},
                              {"revindex0", Value(size - index - 1)},
                              {"first", Value(i == 0)},
                              {"last", Value(index + 1 == size)},
                              {"length", Value(size)},
                              {"previtem", i > 0 ? items[i - 1] : Value(Undefined{"loop.previtem"})},
                              {"nextitem", index + 1 < size ? items[i + 1] : Value(Undefined{"loop.nextitem"})},
                              {"cycle", Value(Function([i](const List& a, const NamedArguments&) {
                                 if (a.empty()) Fail("loop.cycle needs values");
                                 return a[i % a.size()];
                               }))}};
  }

  [[gnu::noinline]] void DefineMacro(const Statement& macro) {
    budget_.MakeItems(1);
    scopes_.back()[macro.text] = Value(Function([this, &macro](const List& a, const NamedArguments& named) {
      // A macro sees the global functions, the template's top-level names and its own parameters.
      budget_.MakeItems(1 + scopes_.size() + macro.parameters.size());
      std::vector<Scope> outside(std::make_move_iterator(scopes_.begin() + 2), std::make_move_iterator(scopes_.end()));
      scopes_.resize(2);
      scopes_.push_back(BindParameters(macro, a, named));
      MarkedText out;
      Execute(macro.body, out);
      scopes_.resize(2);
      std::move(outside.begin(), outside.end(), std::back_inserter(scopes_));
      return Value(std::move(out));
    }));
  }

  Scope BindParameters(const Statement& macro, const List& positional, const NamedArguments& named) {
    Scope scope;
    for (const auto& [name, value] : named) {
      budget_.Work(1 + macro.parameters.size());
      if (std::ranges::find(macro.parameters, name, [](const auto& p) { return p.first; }) == macro.parameters.end())
        Fail("macro {} has no parameter {}", macro.text, name);
    }
    if (positional.size() > macro.parameters.size())
      Fail("macro {} takes {} arguments", macro.text, macro.parameters.size());
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, otherwise] = macro.parameters[i];
      budget_.Work(1 + named.size());
      const auto it =
          std::find_if(named.begin(), named.end(), [&, &n = name](const auto& entry) { return entry.first == n; });
      if (i < positional.size()) {
        scope[name] = positional[i];
      } else if (it != named.end()) {
        scope[name] = it->second;
      } else {
        scope[name] = otherwise != nullptr ? Evaluate(*otherwise) : Value(Undefined{name});
      }
    }
    return scope;
  }

  // --- expressions ---

  Value Lookup(const std::string& name) {
    budget_.Work(scopes_.size());
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto it = scope->find(name);
      if (it != scope->end()) return it->second;
    }
    return Value(Undefined{name});
  }

  Value Evaluate(const Expression& e) {
    const Budget::Level level(budget_);
    line_ = e.line;
    budget_.Work(1);
    switch (e.kind) {
      case EKind::kLiteral:
        return e.value;
      case EKind::kName:
        return Lookup(e.text);
      case EKind::kList:
        return Value(EvaluateAll(e.operands, 0));
      case EKind::kTuple:
        return Value(Tuple{EvaluateAll(e.operands, 0)});
      case EKind::kDict:
        return MakeDict(e);
      case EKind::kAttribute:
        return Attribute(Evaluate(*e.operands[0]), e.text);
      case EKind::kSubscript:
        return Subscript(Evaluate(*e.operands[0]), Evaluate(*e.operands[1]), budget_);
      case EKind::kSlice:
        return EvaluateSlice(e);
      case EKind::kCall:
        return Call(e);
      case EKind::kFilter: {
        const Value input = Evaluate(*e.operands[0]);
        return ApplyFilter(e.text, input, EvaluateArguments(e), budget_);
      }
      case EKind::kTest: {
        const Value input = Evaluate(*e.operands[0]);
        return Value(ApplyTest(e.text, input, EvaluateArguments(e), budget_));
      }
      case EKind::kUnary:
        return Unary(e);
      case EKind::kBinary:
        return Binary(e);
      case EKind::kComparison:
        return Value(Compare(e));
      case EKind::kConditional:
        if (Evaluate(*e.operands[1]).Truthy()) return Evaluate(*e.operands[0]);
        return e.operands[2] != nullptr ? Evaluate(*e.operands[2]) : Value(Undefined{"the missing else"});
    }
    Fail("unknown expression");
  }

  List EvaluateAll(const std::vector<ExpressionPtr>& expressions, size_t from) {
    List out;
    budget_.MakeItems(expressions.size());
    for (size_t i = from; i < expressions.size(); ++i) out.push_back(Evaluate(*expressions[i]));
    return out;
  }

  Arguments EvaluateArguments(const Expression& e) {
    Arguments arguments;
    arguments.positional = EvaluateAll(e.operands, 1);
    for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, Evaluate(*value));
    return arguments;
  }

  Value MakeDict(const Expression& e) {
    Dict dict;
    for (size_t i = 0; i + 1 < e.operands.size(); i += 2) {
      const std::optional<Key> key = KeyOf(Evaluate(*e.operands[i]));
      if (!key) Fail("a mapping's key is a text, a number or none");
      dict.Set(*key, Evaluate(*e.operands[i + 1]), budget_);
    }
    return Value(std::move(dict));
  }

  Value Attribute(const Value& value, const std::string& name) {
    if (const auto* undefined = value.As<Undefined>()) Fail("'{}' is undefined", undefined->name);
    if (value.AsDict() != nullptr && IsMethod(*value.AsDict(), name)) return Method(name);
    const Value* found = value.AsDict() != nullptr ? value.AsDict()->Find(name, budget_) : nullptr;
    return found != nullptr ? *found : Value(Undefined{name});
  }

  Value EvaluateSlice(const Expression& e) {
    const Value of = Evaluate(*e.operands[0]);
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i) {
      if (e.operands[i + 1] != nullptr) bounds[i] = Evaluate(*e.operands[i + 1]);
    }
    return Slice(of, &bounds[0], &bounds[1], &bounds[2], budget_);
  }

  Value Call(const Expression& e) {
    const Expression& callee = *e.operands[0];
    Value function;
    if (callee.kind == EKind::kAttribute) {
      const Value self = Evaluate(*callee.operands[0]);
      const Dict* dict = self.AsDict();
      const Value* stored =
          dict != nullptr && !IsMethod(*dict, callee.text) ? dict->Find(callee.text, budget_) : nullptr;
      if (stored == nullptr || stored->AsFunction() == nullptr) {
        if (const auto* undefined = self.As<Undefined>()) Fail("'{}' is undefined", undefined->name);
        return CallMethod(self, callee.text, EvaluateArguments(e), budget_);
      }
      function = *stored;
    } else {
      function = Evaluate(callee);
    }
    if (function.AsFunction() == nullptr) Fail("'{}' is not a function this interpreter knows", callee.text);
    const Arguments arguments = EvaluateArguments(e);
    return (*function.AsFunction())(arguments.positional, arguments.named);
  }

  Value Unary(const Expression& e) {
    const Value operand = Evaluate(*e.operands[0]);
    if (e.text == "not") return Value(!operand.Truthy());
    if (operand.As<double>()) return Value(-operand.Number());
    return ApplyBinary("-", Value(int64_t{0}), Value(operand.Integer("'-'")), budget_);
  }

  Value Binary(const Expression& e) {
    Value left = Evaluate(*e.operands[0]);
    if (e.text == "and") return left.Truthy() ? Evaluate(*e.operands[1]) : left;
    if (e.text == "or") return left.Truthy() ? left : Evaluate(*e.operands[1]);
    const Value right = Evaluate(*e.operands[1]);
    return ApplyBinary(e.text, left, right, budget_);
  }

  /// Evaluates a chain of comparisons: a < b < c means a < b and b < c, with b evaluated once.
  bool Compare(const Expression& e) {
    Value left = Evaluate(*e.operands[0]);
    for (size_t i = 0; i < e.operators.size(); ++i) {
      Value right = Evaluate(*e.operands[i + 1]);
      if (!ApplyBinary(e.operators[i], left, right, budget_).Truthy()) return false;
      left = std::move(right);
    }
    return true;
  }

  friend MarkedText quire::jinja::Render(const Body&, const std::map<std::string, Value>&, const Limits&);

  Budget budget_;
  std::vector<Scope> scopes_;
  int line_ = 0;
};

}  // namespace

MarkedText Render(const Body& body, const std::map<std::string, Value>& variables, const Limits& limits) {
  Interpreter interpreter(variables, limits);
  try {
    return interpreter.Run(body);
  } catch (const Error& error) {
    Fail("template:{}: {}", interpreter.line_, error.what());
  }
}

}  // namespace quire::jinja
