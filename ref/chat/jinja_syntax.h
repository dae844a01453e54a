// SPDX-License-Identifier: MIT
// The syntax tree of a template, as jinja2 parses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ref/chat/jinja_value.h"

namespace draftproof::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr of;
  std::string name;
};
struct Subscript {
  ExpressionPtr of;
  ExpressionPtr index;
};
struct Slice {
  ExpressionPtr of;
  ExpressionPtr from, to, step;
};  // each but `of` may be null
struct Call {
  ExpressionPtr callee;
  Arguments arguments;
};
struct Filter {
  ExpressionPtr of;
  std::string name;
  Arguments arguments;
};  // `of` is null for a block's text
struct Test {
  ExpressionPtr of;
  std::string name;
  Arguments arguments;
};
enum class UnaryOperator : std::uint8_t { logical_not, minus, plus };
struct Unary {
  UnaryOperator sign;
  ExpressionPtr of;
};
enum class BinaryOperator : std::uint8_t { add, subtract, multiply, divide, divide_down, modulo, power, both, either };
struct Binary {
  BinaryOperator sign;
  ExpressionPtr left, right;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
enum class Comparison : std::uint8_t { equal, unequal, less, at_most, greater, at_least, in, not_in };
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr condition, then, else_branch;
};  // `else_branch` may be null

struct Expression {
  std::variant<Constant, Name, ListLiteral, DictLiteral, Attribute, Subscript, Slice, Call, Filter, Test, Unary, Binary,
               Concatenation, Compare, Conditional>
      node;
  int line;
  int depth;  // levels of this tree
};

struct Statement;
using Body = std::vector<Statement>;

/// What is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute = {};
  std::vector<Target> parts = {};  // not empty: a tuple
};

struct Parameter {
  std::string name;
  ExpressionPtr initial;  // null: none
};

/// The text of a macro or of a call block.
struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false;
};

struct Data {
  MarkedText text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body else_branch;
};
struct For {
  Target target;
  ExpressionPtr over;
  ExpressionPtr filter;  // null: none
  Body body;
  Body else_branch;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  std::vector<Filter> filters;
  Body body;
};
struct FilterBlock {
  std::vector<Filter> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
};
struct MacroDefinition {
  std::unique_ptr<const Macro> macro;
};
struct CallBlock {
  std::unique_ptr<const Macro> caller;
  ExpressionPtr call;
};
struct Group {
  Body body;
};  // {% generation %}
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Data, Output, If, For, Set, SetBlock, FilterBlock, With, MacroDefinition, CallBlock, Group, Break,
               Continue>
      node;
  int line;
};

/// Throws Error, "ORIGIN: line N: ...", for what is no template, for what is not implemented, by name, and for a tree
/// of more than 200 levels.
Body parse_template(std::string_view source, const std::string& origin);

}  // namespace draftproof::jinja
