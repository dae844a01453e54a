// SPDX-License-Identifier: MIT
// The interpreter: walks the syntax tree. A scope is a set of variables: of the template, of one iteration of a loop,
// of one call of a macro, of a block. What is set in a scope hides the variable of an outer one until the scope ends.
#include "ref/chat/jinja_template.h"

#include <algorithm>
#include <utility>

#include "ref/base/error.h"
#include "ref/chat/jinja_builtins.h"
#include "ref/chat/jinja_lexer.h"
#include "ref/chat/jinja_operators.h"
#include "ref/chat/jinja_printing.h"
#include "ref/chat/jinja_syntax.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {

/// The variables of one level; those of the levels around it are seen through it.
struct Scope {
  Scope* parent = nullptr;
  std::map<std::string, Value, std::less<>> variables = {};
};

/// A call block's text, while the call lasts.
struct Caller {
  const Macro& macro;
  Scope* scope;
  bool lasts = true;
};

namespace {

constexpr int evaluations_max = 800;  // nested in each other, calls of macros included

enum class Flow { go_on, leave_loop, next_item };

class Interpreter {
 public:
  Interpreter(const Dict& variables, const std::tm& now, std::uint64_t work)
      : variables_(variables), rendering_{Budget(work), now} {}

  MarkedText run(const Body& body) {
    execute(body, root_);
    return std::move(output_);
  }
  int line() const noexcept { return line_; }

 private:
  class Level {
   public:
    explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
      if (++interpreter_.levels_ > evaluations_max) throw Error("macros and expressions nest too deep");
    }
    ~Level() { --interpreter_.levels_; }

   private:
    Interpreter& interpreter_;
  };

  Budget& budget() { return rendering_.budget; }

  // Statements.

  Flow execute(const Body& body, Scope& scope) {
    for (const Statement& statement : body) {
      line_ = statement.line;
      budget().charge(64);
      const Flow flow = std::visit([&](const auto& node) { return run(node, scope); }, statement.node);
      if (flow != Flow::go_on) return flow;
    }
    return Flow::go_on;
  }

  Flow run(const Data& data, Scope&) {
    budget().charge(data.text.size());
    output_.append(data.text);
    return Flow::go_on;
  }

  Flow run(const Output& output, Scope& scope) {
    append_text_of(evaluate(output.value, scope), output_, budget());
    return Flow::go_on;
  }

  Flow run(const If& branches, Scope& scope) {
    const Level level(*this);
    for (const auto& [condition, body] : branches.branches) {
      if (is_true(evaluate(condition, scope))) return execute(body, scope);
    }
    return execute(branches.else_branch, scope);
  }

  Flow run(const For& loop, Scope& scope) {
    const Level level(*this);
    auto items = std::make_shared<std::vector<Value>>(items_of(evaluate(loop.over, scope), rendering_));
    if (loop.filter) {
      std::vector<Value> kept;
      for (const Value& item : *items) {
        Scope inner{&scope};
        assign(loop.target, item, inner);
        if (is_true(evaluate(loop.filter, inner))) kept.push_back(item);
      }
      *items = std::move(kept);
    }
    if (items->empty()) {
      Scope inner{&scope};
      return execute(loop.else_branch, inner);
    }
    auto index = std::make_shared<std::size_t>(0);
    const Value state = Value::of(Loop{.items = items, .index = index});
    for (; *index < items->size(); ++*index) {
      budget().charge(64);
      Scope inner{&scope};
      inner.variables.emplace("loop", state);
      assign(loop.target, (*items)[*index], inner);
      if (execute(loop.body, inner) == Flow::leave_loop) break;
    }
    return Flow::go_on;
  }

  Flow run(const Set& set, Scope& scope) {
    assign(set.target, evaluate(set.value, scope), scope);
    return Flow::go_on;
  }

  Flow run(const SetBlock& block, Scope& scope) {
    Flow flow = Flow::go_on;
    const Value text = filtered(block.filters, captured(block.body, scope, flow), scope);
    if (flow == Flow::go_on) assign(block.target, text, scope);
    return flow;
  }

  Flow run(const FilterBlock& block, Scope& scope) {
    Flow flow = Flow::go_on;
    append_text_of(filtered(block.filters, captured(block.body, scope, flow), scope), output_, budget());
    return flow;
  }

  Flow run(const With& with, Scope& scope) {
    const Level level(*this);
    Scope inner{&scope};
    for (const auto& [target, value] : with.values) assign(target, evaluate(value, scope), inner);
    return execute(with.body, inner);
  }

  Flow run(const MacroDefinition& definition, Scope& scope) {
    const Macro& macro = *definition.macro;
    scope.variables.insert_or_assign(macro.name, Value::of(Callable{.name = macro.name, .macro = &macro}));
    return Flow::go_on;
  }

  Flow run(const CallBlock& block, Scope& scope) {
    const Level level(*this);
    callers_.push_back(std::make_unique<Caller>(Caller{*block.caller, &scope}));
    Caller& caller = *callers_.back();
    const auto& call = std::get<Call>(block.call->node);
    GivenArguments given = arguments(call.arguments, scope);
    given.named.emplace_back("caller", Value::of(Callable{.name = "caller", .caller = &caller}));
    const Value result = called(evaluate(call.callee, scope), given);
    caller.lasts = false;
    append_text_of(result, output_, budget());
    return Flow::go_on;
  }

  Flow run(const Group& group, Scope& scope) {
    const Level level(*this);
    Scope inner{&scope};
    return execute(group.body, inner);
  }

  Flow run(const Break&, Scope&) { return Flow::leave_loop; }
  Flow run(const Continue&, Scope&) { return Flow::next_item; }

  /// What a body prints, as a value.
  MarkedText captured(const Body& body, Scope& scope, Flow& flow) {
    const Level level(*this);
    MarkedText outer = std::exchange(output_, {});
    Scope inner{&scope};
    flow = execute(body, inner);
    return std::exchange(output_, std::move(outer));
  }

  Value filtered(const std::vector<Filter>& filters, Value value, Scope& scope) {
    for (const Filter& filter : filters) {
      value = apply_filter(filter.name, value, arguments(filter.arguments, scope), rendering_);
    }
    return value;
  }

  void assign(const Target& target, const Value& value, Scope& scope) {
    if (!target.parts.empty()) {
      const std::vector<Value> items = items_of(value, rendering_);
      if (items.size() != target.parts.size()) {
        throw Error("cannot unpack " + std::to_string(items.size()) + " values into " +
                    std::to_string(target.parts.size()) + " names");
      }
      for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
    } else if (target.attribute.empty()) {
      scope.variables.insert_or_assign(target.name, value);
    } else {
      Namespace* const space = look_up(target.name, scope).as_namespace();
      if (space == nullptr) throw Error(in_quotes(target.name) + " is not a namespace, so no attribute can be set");
      if (target.attribute.starts_with('_')) {
        throw Error("the attribute " + in_quotes(target.attribute) + " of a namespace begins with _; rename it");
      }
      space->attributes.insert_or_assign(target.attribute, value);
    }
  }

  Value look_up(const std::string& name, const Scope& scope) const {
    for (const Scope* at = &scope; at != nullptr; at = at->parent) {
      if (const auto found = at->variables.find(name); found != at->variables.end()) return found->second;
    }
    if (const Value* variable = variables_.find(name)) return *variable;
    if (is_function(name)) return Value::of(Callable{.name = name});
    for (const char* other : {"cycler", "joiner", "lipsum"}) {
      if (name == other) throw Error("the function " + in_quotes(name) + " is not implemented");
    }
    return Value::undefined(in_quotes(name) + " is undefined");
  }

  // Expressions.

  Value evaluate(const ExpressionPtr& expression, Scope& scope) {
    const Level level(*this);
    line_ = expression->line;
    budget().charge(64);
    Value value = std::visit([&](const auto& node) { return of(node, scope); }, expression->node);
    line_ = expression->line;
    return value;
  }

  Value of(const Constant& constant, Scope&) { return constant.value; }
  Value of(const Name& name, Scope& scope) { return look_up(name.name, scope); }

  Value of(const ListLiteral& literal, Scope& scope) {
    std::vector<Value> items;
    for (const ExpressionPtr& item : literal.items) items.push_back(evaluate(item, scope));
    return Value::of(List{literal.tuple ? List::Kind::tuple : List::Kind::list, std::move(items)});
  }

  Value of(const DictLiteral& literal, Scope& scope) {
    Dict dict;
    for (const auto& [key, value] : literal.entries) {
      const Value name = evaluate(key, scope);
      dict.set(name, evaluate(value, scope), budget());
    }
    return Value::of(std::move(dict));
  }

  Value of(const Attribute& attribute, Scope& scope) {
    return attribute_of(evaluate(attribute.of, scope), attribute.name, rendering_);
  }

  Value of(const Subscript& subscript, Scope& scope) {
    const Value value = evaluate(subscript.of, scope);
    return item_of(value, evaluate(subscript.index, scope), rendering_);
  }

  Value of(const Slice& slice, Scope& scope) {
    const Value value = evaluate(slice.of, scope);
    const auto bound = [&](const ExpressionPtr& part) { return part ? evaluate(part, scope) : Value(); };
    const Value from = bound(slice.from);
    const Value to = bound(slice.to);
    return slice_of(value, from, to, bound(slice.step), rendering_);
  }

  Value of(const Call& call, Scope& scope) {
    const Value callee = evaluate(call.callee, scope);
    return called(callee, arguments(call.arguments, scope));
  }

  Value of(const Filter& filter, Scope& scope) {
    const Value value = evaluate(filter.of, scope);
    return apply_filter(filter.name, value, arguments(filter.arguments, scope), rendering_);
  }

  Value of(const Test& test, Scope& scope) {
    const Value value = evaluate(test.of, scope);
    return apply_test(test.name, value, arguments(test.arguments, scope), rendering_);
  }

  Value of(const Unary& unary, Scope& scope) {
    const Value value = evaluate(unary.of, scope);
    switch (unary.sign) {
      case UnaryOperator::logical_not: return !is_true(value);
      case UnaryOperator::minus: return negative(value);
      case UnaryOperator::plus: break;
    }
    return positive(value);
  }

  Value of(const Binary& binary, Scope& scope) {
    Value left = evaluate(binary.left, scope);
    if (binary.sign == BinaryOperator::both) return is_true(left) ? evaluate(binary.right, scope) : left;
    if (binary.sign == BinaryOperator::either) return is_true(left) ? left : evaluate(binary.right, scope);
    return arithmetic(binary.sign, left, evaluate(binary.right, scope), rendering_);
  }

  Value of(const Concatenation& concatenation, Scope& scope) {
    MarkedText text;
    for (const ExpressionPtr& part : concatenation.parts) append_text_of(evaluate(part, scope), text, budget());
    return text;
  }

  Value of(const Compare& compare, Scope& scope) {
    Value left = evaluate(compare.first, scope);
    for (const auto& [sign, expression] : compare.rest) {
      Value right = evaluate(expression, scope);
      if (!holds(sign, left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool holds(Comparison sign, const Value& left, const Value& right) {
    switch (sign) {
      case Comparison::equal: return equal(left, right, budget());
      case Comparison::unequal: return !equal(left, right, budget());
      case Comparison::less: return less(left, right, budget());
      case Comparison::greater: return less(right, left, budget());
      case Comparison::at_most: return less(left, right, budget()) || equal(left, right, budget());
      case Comparison::at_least: return less(right, left, budget()) || equal(left, right, budget());
      case Comparison::in: return contains(right, left, rendering_);
      case Comparison::not_in: break;
    }
    return !contains(right, left, rendering_);
  }

  Value of(const Conditional& conditional, Scope& scope) {
    if (is_true(evaluate(conditional.condition, scope))) return evaluate(conditional.then, scope);
    if (conditional.else_branch) return evaluate(conditional.else_branch, scope);
    return Value::undefined("the inline if-expression evaluated to false and has no else");
  }

  GivenArguments arguments(const Arguments& list, Scope& scope) {
    GivenArguments given;
    for (const ExpressionPtr& value : list.positional) given.positional.push_back(evaluate(value, scope));
    for (const auto& [name, value] : list.named) given.named.emplace_back(name, evaluate(value, scope));
    return given;
  }

  Value called(const Value& callee, const GivenArguments& given) {
    require_defined(callee);
    const Callable* callable = callee.as<Callable>();
    if (callable == nullptr) throw Error(std::string("a ") + callee.type_name() + " cannot be called");
    if (callable->macro != nullptr) return called(*callable->macro, root_, given);
    if (callable->caller == nullptr) return call(*callable, given, rendering_);
    if (!callable->caller->lasts) throw Error("the caller of a call block is called after the block");
    return called(callable->caller->macro, *callable->caller->scope, given);
  }

  /// Calls a macro whose variables come from `around`.
  MarkedText called(const Macro& macro, Scope& around, const GivenArguments& given) {
    const Level level(*this);
    budget().charge(64);
    Scope scope{&around};
    if (given.positional.size() > macro.parameters.size()) {
      throw Error("the macro " + in_quotes(macro.name) + " takes at most " + std::to_string(macro.parameters.size()) +
                  " arguments, and " + std::to_string(given.positional.size()) + " are given");
    }
    for (std::size_t i = 0; i < given.positional.size(); ++i) {
      scope.variables.emplace(macro.parameters[i].name, given.positional[i]);
    }
    for (const auto& [name, value] : given.named) {
      const bool known = std::ranges::find(macro.parameters, name, &Parameter::name) != macro.parameters.end() ||
                         (name == "caller" && macro.uses_caller);
      if (!known) throw Error("the macro " + in_quotes(macro.name) + " has no parameter " + in_quotes(name));
      if (!scope.variables.emplace(name, value).second) {
        throw Error("the macro " + in_quotes(macro.name) + ": the argument " + in_quotes(name) + " is given twice");
      }
    }
    for (const Parameter& parameter : macro.parameters) {
      if (scope.variables.contains(parameter.name)) continue;
      scope.variables.emplace(parameter.name,
                              parameter.initial
                                  ? evaluate(parameter.initial, scope)
                                  : Value::undefined("parameter " + in_quotes(parameter.name) + " was not provided"));
    }
    if (macro.uses_caller) scope.variables.emplace("caller", Value::undefined("No caller defined"));
    const int line = line_;
    MarkedText outer = std::exchange(output_, {});
    execute(macro.body, scope);
    line_ = line;
    return std::exchange(output_, std::move(outer));
  }

  const Dict& variables_;
  Rendering rendering_;
  std::vector<std::unique_ptr<Caller>> callers_;
  Scope root_;
  MarkedText output_;
  int levels_ = 0;
  int line_ = 1;
};

}  // namespace

struct Template::Parsed {
  Body body;
};

void Template::require_length(std::string_view source, const std::string& origin) {
  if (source.size() > source_bytes_max) throw Error(origin + ": the template is longer than 1 MiB");
}

Template::Template(std::string_view source, std::string origin) : source_(source), origin_(std::move(origin)) {
  require_length(source, origin_);
  parsed_ = std::make_unique<const Parsed>(Parsed{parse_template(source, origin_)});
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

MarkedText Template::render(const Dict& variables, const std::tm& now, std::uint64_t work) const {
  Interpreter interpreter(variables, now, work);
  try {
    return interpreter.run(parsed_->body);
  } catch (const Error& wrong) {
    throw Error(at_line(origin_, interpreter.line()) + wrong.what());
  }
}

}  // namespace draftproof::jinja
