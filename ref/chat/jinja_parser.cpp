// SPDX-License-Identifier: MIT
// Follows jinja2's parser, whose precedence differs from Python's: `~` binds tighter than `+`, and a filter binds
// tighter than every operator but a sign.
#include <algorithm>
#include <initializer_list>

#include "ref/base/error.h"
#include "ref/chat/jinja_builtins.h"
#include "ref/chat/jinja_lexer.h"
#include "ref/chat/jinja_syntax.h"
#include "ref/formats/printable.h"

namespace draftproof::jinja {
namespace {

using Kind = LexicalToken::Kind;

constexpr int depth_max = 200;

int depth_of(const ExpressionPtr& expression) { return expression ? expression->depth : 0; }

int depth_of(const Arguments& arguments) {
  int depth = 0;
  for (const ExpressionPtr& value : arguments.positional) depth = std::max(depth, depth_of(value));
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, depth_of(value));
  return depth;
}

int depth_of(const std::vector<ExpressionPtr>& expressions) {
  int depth = 0;
  for (const ExpressionPtr& one : expressions) depth = std::max(depth, depth_of(one));
  return depth;
}

class Parser {
 public:
  Parser(std::string_view source, const std::string& origin)
      : tokens_(cut_into_tokens(source, origin)), origin_(origin) {}

  Body run() {
    Body body = statements({});
    if (current().kind != Kind::end) fail("unexpected {% " + printable(tokens_[at_ + 1].text) + " %}");
    return body;
  }

 private:
  /// One level of nested statements or expressions.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > depth_max) parser_.fail("nests deeper than 200 levels; use a flatter template");
    }
    ~Level() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  [[noreturn]] void fail(const std::string& what) const { throw Error(at_line(origin_, current().line) + what); }
  [[noreturn]] void refuse(const std::string& what) const { fail(what + " is not implemented"); }

  const LexicalToken& current() const { return tokens_[at_]; }
  const LexicalToken& next() { return tokens_[at_++]; }
  bool is_name(std::string_view name) const { return current().kind == Kind::name && current().text == name; }
  bool is_mark(std::string_view mark) const { return current().kind == Kind::mark && current().text == mark; }
  bool skip_name(std::string_view name) { return is_name(name) && ++at_ > 0; }
  bool skip_mark(std::string_view mark) { return is_mark(mark) && ++at_ > 0; }

  std::string shown() const {
    switch (current().kind) {
      case Kind::block_begin: return "{% " + printable(tokens_[at_ + 1].text) + " %}";
      case Kind::block_end: return "%}";
      case Kind::variable_end: return "}}";
      case Kind::text: return "a string";
      case Kind::integer:
      case Kind::number: return "a number";
      case Kind::end: return "the end of the template";
      default: return in_quotes(current().text);
    }
  }
  void expect_mark(std::string_view mark) {
    if (!skip_mark(mark)) fail("expected " + in_quotes(mark) + ", found " + shown());
  }
  void expect(Kind kind, const char* what) {
    if (current().kind != kind) fail(std::string("expected ") + what + ", found " + shown());
    ++at_;
  }
  std::string expect_name() {
    if (current().kind != Kind::name) fail("expected a name, found " + shown());
    return next().text;
  }

  ExpressionPtr made(decltype(Expression::node) node, int line, int depth) const {
    if (depth >= depth_max) fail("an expression nests deeper than 200 levels; use a flatter one");
    return std::make_unique<const Expression>(Expression{std::move(node), line, depth + 1});
  }

  // Statements.

  bool at_block(std::initializer_list<std::string_view> names) const {
    if (current().kind != Kind::block_begin || tokens_[at_ + 1].kind != Kind::name) return false;
    return std::find(names.begin(), names.end(), tokens_[at_ + 1].text) != names.end();
  }

  /// Reads statements up to one of these blocks, or to the end of the template.
  Body statements(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Body body;
    while (current().kind != Kind::end && !at_block(ends)) {
      const int line = current().line;
      if (current().kind == Kind::data) {
        body.push_back({Data{MarkedText(next().text)}, line});
      } else if (current().kind == Kind::variable_begin) {
        ++at_;
        body.push_back({Output{tuple(true)}, line});
        expect(Kind::variable_end, "}}");
      } else {
        ++at_;
        if (is_end_of_block()) {
          --at_;
          break;
        }
        statement(line, body);
      }
    }
    return body;
  }

  bool is_end_of_block() const {
    return current().kind == Kind::name &&
           (current().text.starts_with("end") || current().text == "else" || current().text == "elif");
  }

  /// Reads the end of a block, "{% name".
  void close(const char* name) {
    if (!at_block({name})) fail(std::string("expected {% ") + name + " %}, found " + shown());
    at_ += 2;
  }
  void end_block() { expect(Kind::block_end, "%}"); }

  Body body_until(const char* end) {
    end_block();
    Body body = statements({end});
    close(end);
    end_block();
    return body;
  }

  /// A body whose variables are its own.
  Body scoped_body_until(const char* end) {
    ++scopes_;
    Body body = body_until(end);
    --scopes_;
    return body;
  }

  void statement(int line, Body& body) {
    const std::string name = expect_name();
    if (name == "if") {
      body.push_back({if_statement(), line});
    } else if (name == "for") {
      body.push_back({for_statement(), line});
    } else if (name == "set") {
      set_statement(line, body);
    } else if (name == "macro") {
      body.push_back({macro_statement(), line});
    } else if (name == "call") {
      body.push_back({call_statement(), line});
    } else if (name == "filter") {
      std::vector<Filter> filters;
      do {
        filters.push_back(filter(nullptr));
      } while (skip_mark("|"));
      body.push_back({FilterBlock{std::move(filters), scoped_body_until("endfilter")}, line});
    } else if (name == "with") {
      body.push_back({with_statement(), line});
    } else if (name == "generation") {
      body.push_back({Group{scoped_body_until("endgeneration")}, line});
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) fail(name + " outside of a loop");
      if (name == "break") body.push_back({Break{}, line});
      else body.push_back({Continue{}, line});
      end_block();
    } else {
      --at_;
      refuse("the statement " + in_quotes(name));
    }
  }

  If if_statement() {
    If result;
    bool more = true;
    while (more) {
      ExpressionPtr condition = tuple(false);
      end_block();
      Body body = statements({"elif", "else", "endif"});
      result.branches.emplace_back(std::move(condition), std::move(body));
      more = at_block({"elif"});
      if (more) at_ += 2;
    }
    if (at_block({"else"})) {
      at_ += 2;
      end_block();
      result.else_branch = statements({"endif"});
    }
    close("endif");
    end_block();
    return result;
  }

  For for_statement() {
    For result;
    result.target = target(false);
    if (!skip_name("in")) fail("expected 'in', found " + shown());
    result.over = tuple(false);
    if (skip_name("if")) result.filter = expression();
    if (is_name("recursive")) refuse("a recursive loop");
    end_block();
    ++scopes_;
    ++loops_;
    result.body = statements({"else", "endfor"});
    --loops_;
    if (at_block({"else"})) {
      at_ += 2;
      end_block();
      result.else_branch = statements({"endfor"});
    }
    --scopes_;
    close("endfor");
    end_block();
    return result;
  }

  void set_statement(int line, Body& body) {
    Target assigned = target(true);
    if (skip_mark("=")) {
      body.push_back({Set{std::move(assigned), tuple(true)}, line});
      end_block();
      return;
    }
    std::vector<Filter> filters;
    while (skip_mark("|")) filters.push_back(filter(nullptr));
    body.push_back({SetBlock{std::move(assigned), std::move(filters), scoped_body_until("endset")}, line});
  }

  With with_statement() {
    With result;
    while (current().kind != Kind::block_end) {
      if (!result.values.empty()) expect_mark(",");
      Target assigned = target(false, true);
      expect_mark("=");
      result.values.emplace_back(std::move(assigned), expression());
    }
    result.body = scoped_body_until("endwith");
    return result;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> list;
    expect_mark("(");
    while (!is_mark(")")) {
      if (!list.empty()) expect_mark(",");
      list.push_back({assigned_name(), nullptr});
      if (skip_mark("=")) {
        list.back().initial = expression();
      } else if (list.size() > 1 && list[list.size() - 2].initial) {
        fail("a parameter without a default follows one with a default");
      }
    }
    expect_mark(")");
    return list;
  }

  /// Reads the body of a macro; loops around it are not its own.
  void macro_body(Macro& macro, const char* end) {
    const int loops = std::exchange(loops_, 0);
    const bool uses = std::exchange(uses_caller_, false);
    ++macros_;
    macro.body = scoped_body_until(end);
    --macros_;
    macro.uses_caller = std::exchange(uses_caller_, uses);
    loops_ = loops;
  }

  MacroDefinition macro_statement() {
    if (scopes_ > 0) refuse("a macro inside of a loop, of another macro or of a block with variables of its own");
    auto macro = std::make_unique<Macro>();
    macro->name = assigned_name();
    macro->parameters = parameters();
    macro_body(*macro, "endmacro");
    return {std::move(macro)};
  }

  CallBlock call_statement() {
    auto caller = std::make_unique<Macro>();
    caller->name = "caller";
    if (is_mark("(")) caller->parameters = parameters();
    ExpressionPtr call = expression();
    if (!std::holds_alternative<Call>(call->node)) fail("expected the call of a macro");
    const bool uses = uses_caller_;
    macro_body(*caller, "endcall");
    uses_caller_ = uses;
    return {std::move(caller), std::move(call)};
  }

  std::string assigned_name() {
    const std::string name = expect_name();
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) fail("cannot assign to " + name);
    }
    return name;
  }

  Target target(bool with_attribute, bool one = false) {
    Target result;
    bool tuple = false;
    const Level level(*this);
    while (true) {
      Target part;
      if (skip_mark("(")) {
        part = target(false);
        expect_mark(")");
      } else {
        part.name = assigned_name();
        if (with_attribute && skip_mark(".")) part.attribute = expect_name();
      }
      result.parts.push_back(std::move(part));
      if (one || !skip_mark(",")) break;
      tuple = true;
      if (is_mark(")")) break;  // elsewhere no comma is the last
    }
    if (tuple) return result;
    Target only = std::move(result.parts.front());
    return only;
  }

  // Expressions, from the loosest binding to the tightest.

  bool ends_tuple() const {
    return current().kind == Kind::variable_end || current().kind == Kind::block_end || is_mark(")") ||
           is_name("recursive");
  }

  ExpressionPtr tuple(bool with_condition, bool in_parentheses = false) {
    const int line = current().line;
    std::vector<ExpressionPtr> items;
    bool is_tuple = false;
    while (!ends_tuple()) {
      items.push_back(with_condition ? expression() : either());
      if (!is_mark(",")) break;
      ++at_;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (items.empty() && !in_parentheses) fail("expected an expression, found " + shown());
    const int depth = depth_of(items);
    return made(ListLiteral{std::move(items), true}, line, depth);
  }

  ExpressionPtr expression() {
    const Level level(*this);
    const int line = current().line;
    ExpressionPtr value = either();
    while (skip_name("if")) {
      ExpressionPtr condition = either();
      ExpressionPtr else_branch = skip_name("else") ? expression() : nullptr;
      const int depth = std::max({depth_of(value), depth_of(condition), depth_of(else_branch)});
      value = made(Conditional{std::move(condition), std::move(value), std::move(else_branch)}, line, depth);
    }
    return value;
  }

  ExpressionPtr binary(BinaryOperator sign, ExpressionPtr left, ExpressionPtr right, int line) {
    const int depth = std::max(depth_of(left), depth_of(right));
    return made(Binary{sign, std::move(left), std::move(right)}, line, depth);
  }

  ExpressionPtr either() {
    const int line = current().line;
    ExpressionPtr left = both();
    while (skip_name("or")) left = binary(BinaryOperator::either, std::move(left), both(), line);
    return left;
  }

  ExpressionPtr both() {
    const int line = current().line;
    ExpressionPtr left = negation();
    while (skip_name("and")) left = binary(BinaryOperator::both, std::move(left), negation(), line);
    return left;
  }

  ExpressionPtr unary(UnaryOperator sign, ExpressionPtr of, int line) {
    const int depth = depth_of(of);
    return made(Unary{sign, std::move(of)}, line, depth);
  }

  ExpressionPtr negation() {
    const int line = current().line;
    if (!skip_name("not")) return comparison();
    const Level level(*this);
    return unary(UnaryOperator::logical_not, negation(), line);
  }

  std::optional<Comparison> comparison_sign() {
    struct Sign {
      const char* mark;
      Comparison meaning;
    };
    for (const Sign sign :
         {Sign{"==", Comparison::equal}, Sign{"!=", Comparison::unequal}, Sign{"<=", Comparison::at_most},
          Sign{">=", Comparison::at_least}, Sign{"<", Comparison::less}, Sign{">", Comparison::greater}}) {
      if (skip_mark(sign.mark)) return sign.meaning;
    }
    if (skip_name("in")) return Comparison::in;
    if (is_name("not") && tokens_[at_ + 1].kind == Kind::name && tokens_[at_ + 1].text == "in") {
      at_ += 2;
      return Comparison::not_in;
    }
    return std::nullopt;
  }

  ExpressionPtr comparison() {
    const int line = current().line;
    Compare result{sum(), {}};
    int depth = depth_of(result.first);
    while (const auto sign = comparison_sign()) {
      result.rest.emplace_back(*sign, sum());
      depth = std::max(depth, depth_of(result.rest.back().second));
    }
    if (result.rest.empty()) return std::move(result.first);
    return made(std::move(result), line, depth);
  }

  ExpressionPtr sum() {
    const int line = current().line;
    ExpressionPtr left = concatenation();
    while (is_mark("+") || is_mark("-")) {
      const auto sign = next().text == "+" ? BinaryOperator::add : BinaryOperator::subtract;
      left = binary(sign, std::move(left), concatenation(), line);
    }
    return left;
  }

  ExpressionPtr concatenation() {
    const int line = current().line;
    std::vector<ExpressionPtr> parts;
    do {
      parts.push_back(product());
    } while (skip_mark("~"));
    if (parts.size() == 1) return std::move(parts.front());
    const int depth = depth_of(parts);
    return made(Concatenation{std::move(parts)}, line, depth);
  }

  ExpressionPtr product() {
    const int line = current().line;
    ExpressionPtr left = power();
    while (is_mark("*") || is_mark("/") || is_mark("//") || is_mark("%")) {
      const std::string mark = next().text;
      const auto sign = mark == "*"    ? BinaryOperator::multiply
                        : mark == "/"  ? BinaryOperator::divide
                        : mark == "//" ? BinaryOperator::divide_down
                                       : BinaryOperator::modulo;
      left = binary(sign, std::move(left), power(), line);
    }
    return left;
  }

  ExpressionPtr power() {
    const int line = current().line;
    ExpressionPtr left = signed_value(true);
    while (skip_mark("**")) left = binary(BinaryOperator::power, std::move(left), signed_value(true), line);
    return left;
  }

  ExpressionPtr signed_value(bool with_filters) {
    const Level level(*this);
    const int line = current().line;
    ExpressionPtr value;
    if (skip_mark("-")) {
      value = unary(UnaryOperator::minus, signed_value(false), line);
    } else if (skip_mark("+")) {
      value = unary(UnaryOperator::plus, signed_value(false), line);
    } else {
      value = primary();
    }
    value = with_postfixes(std::move(value));
    return with_filters ? with_filters_and_tests(std::move(value)) : std::move(value);
  }

  ExpressionPtr constant(Value value, int line) { return made(Constant{std::move(value)}, line, 0); }

  ExpressionPtr primary() {
    const int line = current().line;
    switch (current().kind) {
      case Kind::name: return name(line);
      case Kind::text: {
        std::string text;
        while (current().kind == Kind::text) text += next().text;
        return constant(Value::text(std::move(text)), line);
      }
      case Kind::integer: return constant(next().integer, line);
      case Kind::number: return constant(next().number, line);
      default: break;
    }
    if (skip_mark("(")) {
      ExpressionPtr value = tuple(true, true);
      expect_mark(")");
      return value;
    }
    if (skip_mark("[")) return list(line);
    if (skip_mark("{")) return dictionary(line);
    fail("expected an expression, found " + shown());
  }

  ExpressionPtr name(int line) {
    const std::string& name = next().text;
    if (name == "true" || name == "True") return constant(true, line);
    if (name == "false" || name == "False") return constant(false, line);
    if (name == "none" || name == "None") return constant(Value(), line);
    for (const char* word : {"if", "else", "in", "is", "and", "or", "not"}) {
      if (name == word) {
        --at_;
        fail("expected an expression, found " + shown());
      }
    }
    if (macros_ > 0 && (name == "varargs" || name == "kwargs")) refuse(in_quotes(name) + " of a macro");
    if (name == "caller") uses_caller_ = true;
    return made(Name{name}, line, 0);
  }

  ExpressionPtr list(int line) {
    std::vector<ExpressionPtr> items;
    while (!is_mark("]")) {
      if (!items.empty()) expect_mark(",");
      if (is_mark("]")) break;
      items.push_back(expression());
    }
    expect_mark("]");
    const int depth = depth_of(items);
    return made(ListLiteral{std::move(items), false}, line, depth);
  }

  ExpressionPtr dictionary(int line) {
    DictLiteral result;
    int depth = 0;
    while (!is_mark("}")) {
      if (!result.entries.empty()) expect_mark(",");
      if (is_mark("}")) break;
      ExpressionPtr key = expression();
      expect_mark(":");
      ExpressionPtr value = expression();
      depth = std::max({depth, depth_of(key), depth_of(value)});
      result.entries.emplace_back(std::move(key), std::move(value));
    }
    expect_mark("}");
    return made(std::move(result), line, depth);
  }

  ExpressionPtr with_postfixes(ExpressionPtr value) {
    while (true) {
      const int line = current().line;
      if (skip_mark(".")) {
        value = attribute(std::move(value), line);
      } else if (skip_mark("[")) {
        value = subscript(std::move(value), line);
      } else if (is_mark("(")) {
        value = call(std::move(value), line);
      } else {
        return value;
      }
    }
  }

  ExpressionPtr attribute(ExpressionPtr of, int line) {
    const int depth = depth_of(of);
    if (current().kind == Kind::integer) {
      ExpressionPtr index = constant(next().integer, line);
      return made(Subscript{std::move(of), std::move(index)}, line, depth);
    }
    std::string name = expect_name();
    return made(Attribute{std::move(of), std::move(name)}, line, depth);
  }

  /// Behind "[". Several values, or none, are a tuple.
  ExpressionPtr subscript(ExpressionPtr of, int line) {
    Slice slice;
    bool sliced = false;
    const auto part = [&]() -> ExpressionPtr { return is_mark(":") || is_mark("]") ? nullptr : expression(); };
    slice.from = part();
    if (skip_mark(":")) {
      sliced = true;
      slice.to = part();
      if (skip_mark(":")) slice.step = part();
    }
    if (!sliced && (!slice.from || is_mark(","))) {
      std::vector<ExpressionPtr> items;
      if (slice.from) items.push_back(std::move(slice.from));
      while (skip_mark(",")) items.push_back(expression());
      const int items_depth = depth_of(items);
      slice.from = made(ListLiteral{std::move(items), true}, line, items_depth);
    }
    if (is_mark(",") || is_mark(":")) refuse("slices of several dimensions");
    expect_mark("]");
    const int depth = std::max({depth_of(of), depth_of(slice.from), depth_of(slice.to), depth_of(slice.step)});
    if (!sliced) return made(Subscript{std::move(of), std::move(slice.from)}, line, depth);
    slice.of = std::move(of);
    return made(std::move(slice), line, depth);
  }

  ExpressionPtr call(ExpressionPtr callee, int line) {
    Arguments list = arguments();
    const int depth = std::max(depth_of(callee), depth_of(list));
    return made(Call{std::move(callee), std::move(list)}, line, depth);
  }

  Arguments arguments() {
    Arguments list;
    expect_mark("(");
    bool first = true;
    while (!is_mark(")")) {
      if (!std::exchange(first, false)) expect_mark(",");
      if (is_mark(")")) break;
      if (is_mark("*") || is_mark("**")) refuse("unpacking of arguments");
      const bool named =
          current().kind == Kind::name && tokens_[at_ + 1].kind == Kind::mark && tokens_[at_ + 1].text == "=";
      if (!named) {
        if (!list.named.empty()) fail("an argument without a name follows one with a name");
        list.positional.push_back(expression());
        continue;
      }
      std::string name = next().text;
      ++at_;
      const auto same = [&](const auto& other) { return other.first == name; };
      if (std::ranges::any_of(list.named, same)) fail("the argument " + in_quotes(name) + " is given twice");
      list.named.emplace_back(std::move(name), expression());
    }
    expect_mark(")");
    return list;
  }

  ExpressionPtr with_filters_and_tests(ExpressionPtr value) {
    while (true) {
      const int line = current().line;
      if (skip_mark("|")) {
        Filter applied = filter(std::move(value));
        const int depth = std::max(depth_of(applied.of), depth_of(applied.arguments));
        value = made(std::move(applied), line, depth);
      } else if (skip_name("is")) {
        value = test(std::move(value), line);
      } else if (is_mark("(")) {
        value = call(std::move(value), line);
      } else {
        return value;
      }
    }
  }

  Filter filter(ExpressionPtr of) {
    Filter result{std::move(of), expect_name(), {}};
    if (!is_filter(result.name)) {
      --at_;
      refuse("the filter " + in_quotes(result.name));
    }
    if (is_mark("(")) result.arguments = arguments();
    return result;
  }

  ExpressionPtr test(ExpressionPtr of, int line) {
    const bool negated = skip_name("not");
    Test result{std::move(of), {}, {}};
    result.name = current().kind == Kind::name ? expect_name() : "";
    if (!is_test(result.name)) {
      if (!result.name.empty()) --at_;
      refuse("the test " + shown());
    }
    const bool joined = is_name("else") || is_name("or") || is_name("and");
    if (is_mark("(")) {
      result.arguments = arguments();
    } else if (is_name("is")) {
      fail("tests cannot be chained with 'is'");
    } else if ((current().kind == Kind::name && !joined) || current().kind == Kind::text ||
               current().kind == Kind::integer || current().kind == Kind::number || is_mark("[") || is_mark("{")) {
      result.arguments.positional.push_back(with_postfixes(primary()));
    }
    const int depth = std::max(depth_of(result.of), depth_of(result.arguments));
    ExpressionPtr value = made(std::move(result), line, depth);
    return negated ? unary(UnaryOperator::logical_not, std::move(value), line) : std::move(value);
  }

  std::vector<LexicalToken> tokens_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;   // around the current statement, in its macro
  int macros_ = 0;  // around the current statement
  int scopes_ = 0;  // around the current statement, with variables of their own
  bool uses_caller_ = false;
};

}  // namespace

Body parse_template(std::string_view source, const std::string& origin) { return Parser(source, origin).run(); }

}  // namespace draftproof::jinja
