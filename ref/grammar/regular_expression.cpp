// SPDX-License-Identifier: MIT
#include "ref/grammar/regular_expression.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/formats/printable.h"
#include "ref/grammar/character_ranges.h"

namespace draftproof {
namespace {

constexpr int unlimited = -1;

/// A part of an expression.
struct ExpressionPart {
  enum class Kind { characters, sequence, alternatives, repeated, text_begins, text_ends };
  Kind kind = Kind::sequence;
  CharacterRanges characters = {};
  std::vector<ExpressionPart> parts = {};  // of `repeated` one
  int min = 0;
  int max = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

const CharacterRanges digits = {{'0', '9'}};
const CharacterRanges word_characters = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterRanges blanks = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharacterRanges line_ends = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {
    if (!utf8::is_valid(text)) refuse("bytes that are not UTF-8");
  }

  ExpressionPart parsed() && {
    ExpressionPart all = alternatives();
    if (at_ < text_.size()) refuse("a ) without its (");
    return all;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error("has " + what + ", which is not supported in expressions");
  }

  static constexpr int depth_max = 128;  // of groups
  static constexpr int count_max = 100'000;

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t take_character() {
    const utf8::Character step = utf8::step(text_, at_);
    at_ += step.length;
    return step.code_point;
  }

  ExpressionPart alternatives() {
    if (++depth_ > depth_max) refuse("groups that nest too deep");
    ExpressionPart all{.kind = ExpressionPart::Kind::alternatives, .parts = {sequence()}};
    while (take("|")) all.parts.push_back(sequence());
    --depth_;
    return all;
  }

  ExpressionPart sequence() {
    ExpressionPart all;
    while (at_ < text_.size() && peek() != '|' && peek() != ')') all.parts.push_back(counted(element()));
    return all;
  }

  ExpressionPart element() {
    if (take("^")) return {.kind = ExpressionPart::Kind::text_begins};
    if (take("$")) return {.kind = ExpressionPart::Kind::text_ends};
    if (take("(")) return group();
    if (take(".")) return of(complement(line_ends));
    if (take("[")) return of(character_class());
    if (take("\\")) return of(escaped(false));
    for (const char count : {'*', '+', '?'}) {
      if (peek() == count) refuse("a count of nothing");
    }
    const char32_t character = take_character();
    return of({{character, character}});
  }

  static ExpressionPart of(CharacterRanges ranges) {
    return {.kind = ExpressionPart::Kind::characters, .characters = normalized(std::move(ranges))};
  }

  ExpressionPart group() {
    if (take("?")) {
      if (take("=") || take("!") || take("<=") || take("<!")) refuse("lookaround");
      if (take("<")) {
        while (is_letter(peek()) || is_digit(peek()) || peek() == '_') ++at_;
        if (!take(">")) refuse("a group whose name does not end");
      } else if (!take(":")) {
        refuse("a group of an unknown kind, or flags");
      }
    }
    ExpressionPart inner = alternatives();
    if (!take(")")) refuse("a ( without its )");
    return inner;
  }

  ExpressionPart counted(ExpressionPart one) {
    int min = 0;
    int max = unlimited;
    if (take("*")) {
    } else if (take("+")) {
      min = 1;
    } else if (take("?")) {
      max = 1;
    } else if (!take_bounds(min, max)) {
      return one;
    }
    if (one.kind == ExpressionPart::Kind::text_begins || one.kind == ExpressionPart::Kind::text_ends)
      refuse("a count of an anchor");
    take("?");  // how it is matched, not what
    ExpressionPart all{.kind = ExpressionPart::Kind::repeated, .min = min, .max = max};
    all.parts.push_back(std::move(one));
    if (std::string_view("*+?").find(peek()) != std::string_view::npos && at_ < text_.size()) {
      refuse("a count of a count");
    }
    return all;
  }

  /// {m}, {m,} or {m,n}; another brace is a character.
  bool take_bounds(int& min, int& max) {
    const std::size_t begin = at_;
    const auto number = [&](int& value) {
      const std::size_t first = at_;
      for (value = 0; is_digit(peek()); ++at_) value = std::min(count_max + 1, value * 10 + (peek() - '0'));
      return at_ > first;
    };
    bool fits = take("{") && number(min);
    max = min;
    if (fits && take(",") && !number(max)) max = unlimited;
    fits = fits && take("}");
    if (!fits) at_ = begin;
    if (fits && (min > count_max || max > count_max)) refuse("a count above " + std::to_string(count_max));
    if (fits && max != unlimited && max < min) refuse("a count whose end is below its begin");
    return fits;
  }

  CharacterRanges character_class() {
    const bool negated = take("^");
    CharacterRanges ranges;
    while (peek() != ']') {
      if (at_ >= text_.size()) refuse("a class without its ]");
      CharacterRanges first = class_member();
      const bool range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (range) {
        ++at_;
        const CharacterRanges last = class_member();
        const auto is_one = [](const CharacterRanges& set) { return set.size() == 1 && set[0].first == set[0].second; };
        if (!is_one(first) || !is_one(last)) refuse("a range of a class that begins or ends with several characters");
        if (last[0].first < first[0].first) refuse("a range that ends before it begins");
        first[0].second = last[0].first;
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    ++at_;
    return negated ? complement(ranges) : normalized(std::move(ranges));
  }

  CharacterRanges class_member() {
    if (take("\\")) return escaped(true);
    if (at_ >= text_.size()) refuse("a class without its ]");
    const char32_t character = take_character();
    return {{character, character}};
  }

  char32_t hexadecimal(std::size_t count) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      const char c = peek();
      const bool low = c >= 'a' && c <= 'f';
      const bool high = c >= 'A' && c <= 'F';
      if (!is_digit(c) && !low && !high) refuse("an escape with too few hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : low ? c - 'a' + 10 : c - 'A' + 10);
    }
    return value;
  }

  /// Behind \u.
  char32_t unicode_escape() {
    char32_t value = 0;
    if (take("{")) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end - at_ > 6) refuse("an escape without its }");
      value = hexadecimal(end - at_);
      ++at_;
    } else {
      value = hexadecimal(4);
      if (value >= 0xD800 && value < 0xDC00 && take("\\u")) {
        const char32_t low = hexadecimal(4);
        if (low < 0xDC00 || low > 0xDFFF) refuse("half a surrogate pair");
        value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (value > last_character || (value >= 0xD800 && value <= 0xDFFF)) refuse("an escape that is no character");
    return value;
  }

  /// Behind a backslash.
  CharacterRanges escaped(bool in_class) {
    if (at_ >= text_.size()) refuse("a \\ at its end");
    const auto one = [](char32_t character) { return CharacterRanges{{character, character}}; };
    const char c = peek();
    if (!is_letter(c) && !is_digit(c)) return one(take_character());
    ++at_;
    switch (c) {
      case 'd': return digits;
      case 'D': return complement(digits);
      case 'w': return word_characters;
      case 'W': return complement(word_characters);
      case 's': return blanks;
      case 'S': return complement(blanks);
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'v': return one('\v');
      case 'f': return one('\f');
      case 'r': return one('\r');
      case 'x': return one(hexadecimal(2));
      case 'u': return one(unicode_escape());
      case 'c':
        if (!is_letter(peek())) refuse("a \\c that no letter follows");
        return one(static_cast<char32_t>(text_[at_++]) % 32);
      case '0':
        if (is_digit(peek())) refuse("an octal escape");
        return one(0);
      case 'b':
        if (in_class) return one('\b');
        refuse("the word boundary \\b");
      case 'B': refuse("the word boundary \\B");
      case 'p':
      case 'P': refuse("a property of Unicode, \\p");
      case 'k': refuse("a reference to a group");
      default: break;
    }
    if (is_digit(c)) refuse("a reference to a group");
    refuse("the escape " + in_quotes(std::string("\\") + c));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// A nondeterministic automaton of an expression that matches somewhere in a text, made deterministic.
class Matcher {
 public:
  explicit Matcher(const ExpressionPart& expression) {
    const int begin = state();
    const int first = state();
    step(begin, RegularLanguage::of_everything().states()[0], begin);
    free_step(begin, first);
    const int last = state();
    add(expression, first, last);
    step(last, RegularLanguage::of_everything().states()[0], last);
    end_ = last;
  }

  RegularLanguage language() {
    std::vector<std::vector<int>> sets = {closure({0}, true, false)};
    if (std::ranges::binary_search(sets[0], end_)) sets[0] = {end_};
    std::map<std::vector<int>, int> places;   // the first set is where texts begin, and no other set is
    std::map<std::vector<int>, int> reached;  // the place of what is reached from the states behind a character
    std::vector<RegularLanguage::State> states;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      RegularLanguage::State made;
      const std::vector<int> ended = closure(sets[i], i == 0, true);
      made.accepts = std::ranges::binary_search(ended, end_);
      std::vector<char32_t> borders;
      for (const int one : sets[i]) {
        for (const auto& [first, last] : states_[static_cast<std::size_t>(one)].characters) {
          borders.push_back(first);
          borders.push_back(last + 1);
        }
      }
      std::ranges::sort(borders);
      borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
      for (std::size_t border = 0; border + 1 < borders.size(); ++border) {
        std::vector<int> next;
        for (const int one : sets[i]) {
          const Node& from = states_[static_cast<std::size_t>(one)];
          const auto range =
              std::ranges::lower_bound(from.characters, borders[border], {}, &std::pair<char32_t, char32_t>::second);
          if (range != from.characters.end() && range->first <= borders[border]) next.push_back(from.next);
        }
        if (next.empty()) continue;
        charge(sets[i].size());
        auto place = reached.find(next);
        if (place == reached.end()) {
          std::vector<int> set = closure(next, false, false);
          // Where the expression has matched, anything may follow.
          if (std::ranges::binary_search(set, end_)) set = {end_};
          const auto [known, fresh] = places.try_emplace(set, static_cast<int>(sets.size()));
          if (fresh) {
            if (sets.size() >= RegularLanguage::states_max) refuse_large_language();
            sets.push_back(std::move(set));
          }
          place = reached.emplace(std::move(next), known->second).first;
        }
        made.edges.push_back({borders[border], borders[border + 1] - 1, place->second});
      }
      states.push_back(std::move(made));
    }
    return RegularLanguage(std::move(states));
  }

 private:
  static constexpr std::size_t nodes_max = std::size_t{1} << 16;
  static constexpr std::size_t work_max = std::size_t{1} << 26;

  struct Node {
    CharacterRanges characters = {};
    int next = 0;                // behind one of them
    std::vector<int> free = {};  // without reading anything
    int at_begin = -1;           // only where the text begins
    int at_end = -1;             // only where it ends
  };

  int state() {
    if (states_.size() >= nodes_max) refuse_large_language();
    states_.emplace_back();
    return static_cast<int>(states_.size()) - 1;
  }
  Node& node(int state) { return states_[static_cast<std::size_t>(state)]; }
  void free_step(int from, int to) { node(from).free.push_back(to); }
  void step(int from, const RegularLanguage::State& characters, int to) {
    for (const RegularLanguage::Edge& edge : characters.edges)
      node(from).characters.emplace_back(edge.first, edge.last);
    node(from).next = to;
  }

  /// Adds what leads from one state to another.
  void add(const ExpressionPart& part, int from, int to) {
    switch (part.kind) {
      case ExpressionPart::Kind::characters: {
        const int reads = state();
        free_step(from, reads);
        node(reads).characters = part.characters;
        node(reads).next = to;
        return;
      }
      case ExpressionPart::Kind::text_begins:
      case ExpressionPart::Kind::text_ends: {
        const int anchor = state();
        free_step(from, anchor);
        (part.kind == ExpressionPart::Kind::text_begins ? node(anchor).at_begin : node(anchor).at_end) = to;
        return;
      }
      case ExpressionPart::Kind::alternatives:
        for (const ExpressionPart& one : part.parts) add(one, from, to);
        return;
      case ExpressionPart::Kind::sequence:
        for (const ExpressionPart& one : part.parts) {
          const int next = state();
          add(one, from, next);
          from = next;
        }
        free_step(from, to);
        return;
      case ExpressionPart::Kind::repeated: add_repeated(part, from, to); return;
    }
  }

  void add_repeated(const ExpressionPart& part, int from, int to) {
    const ExpressionPart& one = part.parts.front();
    for (int i = 0; i < part.min; ++i) {
      const int next = state();
      add(one, from, next);
      from = next;
    }
    if (part.max == unlimited) {
      const int loop = state();
      free_step(from, loop);
      add(one, loop, loop);
      free_step(loop, to);
      return;
    }
    for (int i = part.min; i < part.max; ++i) {
      const int next = state();
      free_step(from, to);
      add(one, from, next);
      from = next;
    }
    free_step(from, to);
  }

  /// All states that are reached without reading anything, ascending.
  std::vector<int> closure(std::vector<int> open, bool at_begin, bool at_end) {
    std::vector<bool>& seen = seen_;
    seen.assign(states_.size(), false);
    charge(states_.size() / 64);
    std::vector<int> set;
    while (!open.empty()) {
      const int one = open.back();
      open.pop_back();
      if (one < 0 || seen[static_cast<std::size_t>(one)]) continue;
      seen[static_cast<std::size_t>(one)] = true;
      set.push_back(one);
      const Node& from = states_[static_cast<std::size_t>(one)];
      open.insert(open.end(), from.free.begin(), from.free.end());
      if (at_begin) open.push_back(from.at_begin);
      if (at_end) open.push_back(from.at_end);
    }
    charge(16 * set.size());  // to sort them
    std::ranges::sort(set);
    return set;
  }

  void charge(std::size_t work) {
    work_ += work;
    if (work_ > work_max) refuse_large_language();
  }

  std::vector<Node> states_;
  std::vector<bool> seen_;
  int end_ = 0;
  std::size_t work_ = 0;
};

}  // namespace

RegularLanguage texts_matching(std::string_view expression) {
  return Matcher(ExpressionParser(expression).parsed()).language();
}

}  // namespace draftproof
