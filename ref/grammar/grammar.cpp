// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/printable.h"
#include "ref/grammar/character_ranges.h"
#include "ref/text/tokenizer.h"

namespace draftproof {
namespace {

using ByteRanges = std::vector<std::pair<unsigned char, unsigned char>>;

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::string utf8_of(char32_t code_point) {
  std::string bytes;
  utf8::append(bytes, code_point);
  return bytes;
}

/// Splits where the bytes of a range would not be a product of byte ranges.
void split(char32_t first, char32_t last, std::vector<ByteRanges>& sequences) {
  if (first > last) return;
  if (first <= 0xDFFF && last >= 0xD800) {  // without surrogates
    if (first < 0xD800) split(first, 0xD7FF, sequences);
    if (last > 0xDFFF) split(0xE000, last, sequences);
    return;
  }
  for (const char32_t longest : {0x7F, 0x7FF, 0xFFFF}) {
    if (first <= longest && longest < last) {
      split(first, longest, sequences);
      split(longest + 1, last, sequences);
      return;
    }
  }
  for (int shift = 6; shift <= 18 && last > 0x7F; shift += 6) {
    const char32_t low = (char32_t{1} << shift) - 1;
    if ((first & ~low) == (last & ~low)) break;
    if ((first & low) != 0) {
      split(first, first | low, sequences);
      split((first | low) + 1, last, sequences);
      return;
    }
    if ((last & low) != low) {
      split(first, (last & ~low) - 1, sequences);
      split(last & ~low, last, sequences);
      return;
    }
  }
  const std::string from = utf8_of(first);
  const std::string to = utf8_of(last);
  ByteRanges ranges;
  for (std::size_t i = 0; i < from.size(); ++i) ranges.emplace_back(from[i], to[i]);
  sequences.push_back(std::move(ranges));
}

/// Returns sequences of byte ranges that together are the UTF-8 of the code points first to last, without surrogates.
std::vector<ByteRanges> utf8_ranges(char32_t first, char32_t last) {
  std::vector<ByteRanges> sequences;
  split(first, std::min(last, last_character), sequences);
  return sequences;
}

}  // namespace

/// Reads the text by recursive descent, and writes symbols as it goes. What is inside of a group or repeated becomes a
/// rule without a name.
class GrammarCompiler {
 public:
  GrammarCompiler(std::string_view text, const std::string& origin, const Tokenizer* tokenizer)
      : text_(text), origin_(origin), tokenizer_(tokenizer) {}

  Grammar compiled() && {
    if (text_.size() > Grammar::text_max) fail("is longer than 1 MiB");
    if (!utf8::is_valid(text_)) fail("is not UTF-8");
    skip_blanks(true);
    while (at_ < text_.size()) read_rule();
    const auto root = names_.find("root");
    if (root == names_.end()) fail("has no rule named root");
    for (const auto& [name, rule] : names_) {
      if (defined_[static_cast<std::size_t>(rule)]) continue;
      fail("names the rule " + in_quotes(name) + ", which does not exist");
    }
    grammar_.root_ = root->second;
    refuse_left_recursion();
    drop_what_never_ends();
    return std::move(grammar_);
  }

 private:
  using Symbol = Grammar::Symbol;
  using Sequence = std::vector<Symbol>;

  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw Error(origin_ + ": line " + std::to_string(line) + ": the grammar " + what);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  /// Skips blanks and comments; line ends too, where the rule cannot end there.
  void skip_blanks(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    if (begin == at_) fail("has something else where a name is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  int new_rule(bool defined) {
    grammar_.rules_.emplace_back();
    defined_.push_back(defined);
    count(1);
    return static_cast<int>(grammar_.rules_.size()) - 1;
  }
  int rule_named(const std::string& name) {
    const auto found = names_.find(name);
    return found != names_.end() ? found->second : names_.emplace(name, new_rule(false)).first->second;
  }

  /// Throws Error where the compiled grammar becomes too large.
  void count(std::size_t more) {
    counted_ += more;
    if (counted_ > Grammar::symbols_max) fail("is too large");
  }

  void add_alternative(int rule, const Sequence& sequence) {
    count(sequence.size() + 1);
    grammar_.rules_[static_cast<std::size_t>(rule)].push_back(static_cast<int>(grammar_.symbols_.size()));
    grammar_.symbols_.insert(grammar_.symbols_.end(), sequence.begin(), sequence.end());
    grammar_.symbols_.push_back({});
  }

  void read_rule() {
    const std::string name = read_name();
    const int rule = rule_named(name);
    if (defined_[static_cast<std::size_t>(rule)]) fail("has two rules named " + in_quotes(name));
    defined_[static_cast<std::size_t>(rule)] = true;
    skip_blanks(false);
    if (!take("::=")) fail("lacks ::= after the name " + in_quotes(name));
    skip_blanks(true);
    read_alternatives(rule, 0);
    skip_blanks(false);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r') fail("has something that does not belong to a rule");
    skip_blanks(true);
  }

  void read_alternatives(int rule, int depth) {
    if (depth > Grammar::depth_max) fail("nests too deep");
    add_alternative(rule, read_sequence(depth));
    while (true) {
      skip_blanks(depth > 0);
      if (!take("|")) return;
      skip_blanks(true);
      add_alternative(rule, read_sequence(depth));
    }
  }

  Sequence read_sequence(int depth) {
    Sequence sequence;
    while (true) {
      skip_blanks(depth > 0);
      Sequence element;
      const char c = peek();
      if (c == '"') {
        element = read_string();
      } else if (c == '[') {
        element = {symbol_of(read_class())};
      } else if (take(".")) {
        element = {symbol_of({{0, last_character}})};
      } else if (take("(")) {
        const int group = new_rule(true);
        skip_blanks(true);
        read_alternatives(group, depth + 1);
        skip_blanks(true);
        if (!take(")")) fail("lacks a closing parenthesis");
        element = {{Symbol::Kind::rule, group}};
      } else if (c == '<' || c == '!') {
        element = {read_token()};
      } else if (is_of_name(c)) {
        element = {{Symbol::Kind::rule, rule_named(read_name())}};
      } else {
        return sequence;
      }
      repeat(element);
      count(element.size());
      sequence.insert(sequence.end(), element.begin(), element.end());
    }
  }

  /// Applies the * + ? {m,n} that follow an element, if any.
  void repeat(Sequence& element) {
    while (true) {
      constexpr int without_end = -1;
      int min = 0;
      int max = without_end;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (take("{")) {
        skip_blanks(false);
        min = read_number();
        skip_blanks(false);
        max = min;
        if (take(",")) {
          skip_blanks(false);
          max = peek() == '}' ? without_end : read_number();
          skip_blanks(false);
        }
        if (!take("}")) fail("lacks a closing brace");
        if (max != without_end && max < min) fail("has a repetition whose most is less than its least");
      } else {
        return;
      }
      if (element.size() != 1) {
        const int group = new_rule(true);
        add_alternative(group, element);
        element = {{Symbol::Kind::rule, group}};
      }
      const Symbol one = element.front();
      element = times(one, min);
      if (max == without_end) {
        const int rest = new_rule(true);
        add_alternative(rest, {one, {Symbol::Kind::rule, rest}});
        add_alternative(rest, {});
        element.push_back({Symbol::Kind::rule, rest});
      } else if (max > min) {
        element.push_back(up_to(one, max - min));
      }
    }
  }

  static constexpr int single_max = 1024;  // more of a symbol are written as blocks of it

  /// How many to a block, so that there are about as many blocks.
  static int block_size(int count) {
    int size = 1;
    while ((size + 1) * (size + 1) <= count) ++size;
    return size;
  }

  Symbol block_of(Symbol one, int size) {
    const int block = new_rule(true);
    add_alternative(block, Sequence(static_cast<std::size_t>(size), one));
    return {Symbol::Kind::rule, block};
  }

  /// So many of a symbol.
  Sequence times(Symbol one, int number) {
    if (number <= single_max) return Sequence(static_cast<std::size_t>(number), one);
    const int size = block_size(number);
    Sequence all(static_cast<std::size_t>(number / size), block_of(one, size));
    all.insert(all.end(), static_cast<std::size_t>(number % size), one);
    return all;
  }

  /// At most so many.
  Symbol up_to(Symbol one, int number) {
    if (number > single_max) {
      // Blocks, then fewer than two blocks of single ones: together every number.
      const int size = block_size(number);
      const int single = size - 1 + (number - (size - 1)) % size;
      const Symbol blocks = up_to(block_of(one, size), (number - single) / size);
      const int all = new_rule(true);
      add_alternative(all, {blocks, up_to(one, single)});
      return {Symbol::Kind::rule, all};
    }
    int rest = -1;
    for (int more = 0; more < number; ++more) {
      const int longer = new_rule(true);
      add_alternative(longer, rest < 0 ? Sequence{one} : Sequence{one, {Symbol::Kind::rule, rest}});
      add_alternative(longer, {});
      rest = longer;
    }
    return {Symbol::Kind::rule, rest};
  }

  int read_number() {
    int number = 0;
    const std::size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      number = number * 10 + (peek() - '0');
      if (number > static_cast<int>(Grammar::symbols_max)) fail("repeats something too often");
    }
    if (begin == at_) fail("lacks a number in a repetition");
    return number;
  }

  char32_t read_hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("has an escape with too few hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > last_character || (value >= 0xD800 && value <= 0xDFFF)) fail("has an escape that is no character");
    return value;
  }

  char32_t read_character() {
    if (at_ >= text_.size() || peek() == '\n') fail("has a string or a class without an end");
    if (!take("\\")) {
      const utf8::Character step = utf8::step(text_, at_);
      at_ += step.length;
      return step.code_point;
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'x': return read_hex(2);
      case 'u': return read_hex(4);
      case 'U': return read_hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '\'':
      case '/': return static_cast<char32_t>(c);
      default: fail("has an escape that does not exist");
    }
  }

  /// <[number]> or <text>, or either after a !
  Symbol read_token() {
    const Symbol::Kind kind = take("!") ? Symbol::Kind::other_token : Symbol::Kind::token;
    if (!take("<")) fail("has a ! that no <token> follows");
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos || text_.substr(at_, end - at_).find('\n') != std::string_view::npos) {
      fail("has a token without an end, >");
    }
    grammar_.names_tokens_ = true;
    if (take("[")) {
      const int token = read_number();
      if (!take("]>")) fail("lacks ]> after the number of a token");
      return {kind, token};
    }
    const std::string name(text_.substr(at_ - 1, end + 2 - at_));  // with its angles, as llama.cpp looks for it
    at_ = end + 1;
    if (tokenizer_ == nullptr) {
      fail("has the token " + in_quotes(name) + ", and nothing says its number; give <[number]>");
    }
    const Token token = tokenizer_->find(name);
    if (token < 0) fail("has the token " + in_quotes(name) + ", which the vocabulary lacks");
    return {kind, token};
  }

  Sequence read_string() {
    ++at_;
    Sequence sequence;
    while (peek() != '"') {
      for (const char byte : utf8_of(read_character())) {
        sequence.push_back(symbol_of_range(static_cast<unsigned char>(byte), static_cast<unsigned char>(byte)));
      }
    }
    ++at_;
    // One element, so that what is repeated is the whole string.
    if (sequence.size() == 1) return sequence;
    const int rule = new_rule(true);
    add_alternative(rule, sequence);
    return {{Symbol::Kind::rule, rule}};
  }

  CharacterRanges read_class() {
    ++at_;
    const bool negated = take("^");
    CharacterRanges ranges;
    while (peek() != ']') {
      const char32_t first = read_character();
      char32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = read_character();
      }
      if (last < first) fail("has a class whose range ends before it begins");
      ranges.emplace_back(first, last);
    }
    ++at_;
    if (negated) ranges = complement(ranges);
    if (ranges.empty()) fail("has a class without a character");
    return ranges;
  }

  using SetBits = std::array<std::uint64_t, sizeof(ByteSet) / sizeof(std::uint64_t)>;
  Symbol symbol_of(const ByteSet& set) {
    const auto [place, fresh] =
        set_places_.try_emplace(std::bit_cast<SetBits>(set), static_cast<int>(grammar_.sets_.size()));
    if (fresh) grammar_.sets_.push_back(set);
    return {Symbol::Kind::bytes, place->second};
  }
  Symbol symbol_of_range(unsigned char first, unsigned char last) {
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.set(static_cast<std::size_t>(byte));
    return symbol_of(set);
  }

  /// One of these characters: a set where all are bytes, else a rule.
  Symbol symbol_of(const CharacterRanges& ranges) {
    ByteSet single;
    std::vector<Sequence> longer;
    for (const auto& [first, last] : ranges) {
      for (const ByteRanges& bytes : utf8_ranges(first, last)) {
        if (bytes.size() == 1) {
          for (int byte = bytes[0].first; byte <= bytes[0].second; ++byte) single.set(static_cast<std::size_t>(byte));
          continue;
        }
        Sequence sequence;
        for (const auto& [from, to] : bytes) sequence.push_back(symbol_of_range(from, to));
        longer.push_back(std::move(sequence));
      }
    }
    if (longer.empty()) return symbol_of(single);
    const int rule = new_rule(true);
    if (single.any()) add_alternative(rule, {symbol_of(single)});
    for (const Sequence& sequence : longer) add_alternative(rule, sequence);
    return {Symbol::Kind::rule, rule};
  }

  /// The rules with an alternative of such rules only, and of bytes and tokens if those count: the rules that can end,
  /// or without bytes those that can read nothing.
  std::vector<bool> rules_of_such(bool bytes_count) const {
    struct Alternative {
      int rule;
      int missing;  // rules in it that are not known to be such
    };
    std::vector<Alternative> alternatives;
    std::vector<std::vector<int>> uses(grammar_.rules_.size());  // [rule]: the alternatives that have it
    std::vector<bool> such(grammar_.rules_.size(), false);
    std::vector<int> fresh;
    const auto settle = [&](const Alternative& alternative) {
      if (alternative.missing > 0 || such[static_cast<std::size_t>(alternative.rule)]) return;
      such[static_cast<std::size_t>(alternative.rule)] = true;
      fresh.push_back(alternative.rule);
    };
    for (std::size_t rule = 0; rule < uses.size(); ++rule) {
      for (int place : grammar_.rules_[rule]) {
        Alternative alternative = {static_cast<int>(rule), 0};
        for (; grammar_.at(place).kind != Symbol::Kind::end; ++place) {
          const bool is_rule = grammar_.at(place).kind == Symbol::Kind::rule;
          if (is_rule)
            uses[static_cast<std::size_t>(grammar_.at(place).index)].push_back(static_cast<int>(alternatives.size()));
          if (is_rule || !bytes_count) ++alternative.missing;
        }
        alternatives.push_back(alternative);
        settle(alternative);
      }
    }
    while (!fresh.empty()) {
      const auto rule = static_cast<std::size_t>(fresh.back());
      fresh.pop_back();
      for (const int use : uses[rule]) {
        --alternatives[static_cast<std::size_t>(use)].missing;
        settle(alternatives[static_cast<std::size_t>(use)]);
      }
    }
    return such;
  }

  /// Drops alternatives that no text ends, so that none leads into them.
  void drop_what_never_ends() {
    const std::vector<bool> ends = rules_of_such(true);
    for (std::vector<int>& alternatives : grammar_.rules_) {
      std::erase_if(alternatives, [&](int place) {
        for (; grammar_.at(place).kind != Symbol::Kind::end; ++place) {
          const Symbol& symbol = grammar_.at(place);
          if (symbol.kind == Symbol::Kind::rule && !ends[static_cast<std::size_t>(symbol.index)]) return true;
        }
        return false;
      });
    }
    if (!ends[static_cast<std::size_t>(grammar_.root_)]) {
      throw Error(origin_ + ": the grammar allows no text: every one would go on for ever");
    }
  }

  /// Throws Error for a rule that can come back to itself without having read a byte.
  void refuse_left_recursion() const {
    const std::vector<bool> nullable = rules_of_such(false);
    enum class Mark { unseen, open, done };
    std::vector<Mark> marks(grammar_.rules_.size(), Mark::unseen);
    struct Visit {
      int rule;
      std::vector<int> begun;  // the rules that can come first in it
      std::size_t next = 0;
    };
    const auto first_rules = [&](int rule) {
      std::vector<int> list;
      for (int place : grammar_.alternatives(rule)) {
        for (; grammar_.at(place).kind == Symbol::Kind::rule; ++place) {
          list.push_back(grammar_.at(place).index);
          if (!nullable[static_cast<std::size_t>(grammar_.at(place).index)]) break;
        }
      }
      return list;
    };
    for (int start = 0; start < static_cast<int>(marks.size()); ++start) {
      if (marks[static_cast<std::size_t>(start)] != Mark::unseen) continue;
      std::vector<Visit> path;
      const auto enter = [&](int rule) {
        marks[static_cast<std::size_t>(rule)] = Mark::open;
        path.push_back({rule, first_rules(rule)});
      };
      enter(start);
      while (!path.empty()) {
        Visit& visit = path.back();
        if (visit.next == visit.begun.size()) {
          marks[static_cast<std::size_t>(visit.rule)] = Mark::done;
          path.pop_back();
          continue;
        }
        const int rule = visit.begun[visit.next++];
        const Mark mark = marks[static_cast<std::size_t>(rule)];
        if (mark == Mark::open) throw Error(origin_ + ": the grammar " + left_recursion(rule));
        if (mark == Mark::unseen) enter(rule);
      }
    }
  }

  std::string left_recursion(int rule) const {
    for (const auto& [name, named] : names_) {
      if (named == rule) {
        return "comes back to the rule " + in_quotes(name) +
               " without having read anything (left recursion); let the "
               "rule begin with something else";
      }
    }
    return "repeats something that can be empty; let it read at least one character";
  }

  std::string_view text_;
  const std::string& origin_;
  const Tokenizer* tokenizer_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;
  Grammar grammar_;
  std::map<std::string, int> names_;
  std::vector<bool> defined_;          // [rule]
  std::map<SetBits, int> set_places_;  // of equal sets there is one
};

Grammar Grammar::from_gbnf(std::string_view text, const std::string& origin, const Tokenizer* tokenizer) {
  return GrammarCompiler(text, origin, tokenizer).compiled();
}

std::string with_root_named(std::string_view gbnf, std::string_view name) {
  constexpr std::string_view root = "root";
  const auto is_within_name = [&](std::size_t at) { return at < gbnf.size() && is_of_name(gbnf[at]); };
  std::string result;
  char closing = 0;  // ends the string, class, token or comment that `at` is in
  for (std::size_t at = 0; at < gbnf.size(); ++at) {
    const char c = gbnf[at];
    const bool begins = closing == 0 && (at == 0 || !is_within_name(at - 1));
    if (begins && gbnf.substr(at).starts_with(root) && !is_within_name(at + root.size())) {
      result += name;
      at += root.size() - 1;
      continue;
    }
    result += c;
    if (closing == 0) {
      closing = c == '"' ? '"' : c == '[' ? ']' : c == '<' ? '>' : c == '#' ? '\n' : '\0';
    } else if (c == '\\' && closing != '>' && closing != '\n' && at + 1 < gbnf.size()) {
      result += gbnf[++at];
    } else if (c == closing) {
      closing = 0;
    }
  }
  return result;
}

}  // namespace draftproof
