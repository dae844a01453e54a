// SPDX-License-Identifier: MIT
#include "ref/chat/jinja_printing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "ref/base/error.h"
#include "ref/text/unicode.h"

namespace draftproof::jinja {
namespace {

std::string hexadecimal(char32_t c, std::size_t digits) {
  std::string text;
  for (std::size_t i = digits; i-- > 0;) text += "0123456789abcdef"[(c >> (4 * i)) & 15];
  return text;
}

/// Appends a number, True, False or None; returns false for other values.
bool append_scalar(const Value& value, MarkedText& text) {
  if (value.is_none()) {
    text.append("None");
  } else if (const auto* boolean = value.as<bool>()) {
    text.append(*boolean ? "True" : "False");
  } else if (const auto* integer = value.as<std::int64_t>()) {
    text.append(std::to_string(*integer));
  } else if (const auto* number = value.as<double>()) {
    text.append(shortest(*number));
  } else {
    return false;
  }
  return true;
}

void append_quoted(const MarkedText& string, MarkedText& text) {
  const bool single = string.bytes().find('\'') == std::string::npos || string.bytes().find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  text.append(std::string_view(&quote, 1));
  for (MarkedCharacters characters(string); !characters.done();) {
    const auto [bytes, c, by_user] = characters.next();
    std::string shown(bytes);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      shown = std::string("\\") + static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      shown = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (!unicode::is_printable(c)) {
      shown = c < 0x100     ? "\\x" + hexadecimal(c, 2)
              : c < 0x10000 ? "\\u" + hexadecimal(c, 4)
                            : "\\U" + hexadecimal(c, 8);
    }
    text.append(shown, by_user);
  }
  text.append(std::string_view(&quote, 1));
}

void append_representation(const Value& value, MarkedText& text, Budget& budget) {
  const std::size_t before = text.size();
  if (append_scalar(value, text)) {
  } else if (value.is_undefined()) {
    text.append("Undefined");
  } else if (const MarkedText* string = value.as<MarkedText>()) {
    if (value.is_safe()) text.append("Markup(");
    append_quoted(*string, text);
    if (value.is_safe()) text.append(")");
  } else if (const Dict* dict = value.as<Dict>()) {
    text.append("{");
    for (const auto& [key, item] : dict->entries) {
      if (&key != &dict->entries.front().first) text.append(", ");
      append_representation(key, text, budget);
      text.append(": ");
      append_representation(item, text, budget);
    }
    text.append("}");
  } else if (const List* list = value.as_list();
             list != nullptr && list->kind != List::Kind::iterator && list->kind != List::Kind::range) {
    const bool tuple = list->kind == List::Kind::tuple;
    const bool view = list->kind == List::Kind::view;
    if (view) text.append(list->view + "(");
    text.append(tuple ? "(" : "[");
    for (const Value& item : list->items) {
      if (&item != &list->items.front()) text.append(", ");
      append_representation(item, text, budget);
    }
    text.append(tuple ? (list->items.size() == 1 ? ",)" : ")") : "]");
    if (view) text.append(")");
  } else {
    throw Error(std::string("printing a ") + value.type_name() + " is not implemented; use `list` or an attribute");
  }
  budget.charge(16 + text.size() - before);
}

class JsonPrinter {
 public:
  JsonPrinter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void print(const Value& value, std::size_t level) {
    const std::size_t before = text_.size();
    if (value.is_none()) {
      text_.append("null");
    } else if (const auto* boolean = value.as<bool>()) {
      text_.append(*boolean ? "true" : "false");
    } else if (const auto* number = value.as<double>()) {
      text_.append(number_text(*number));
    } else if (append_scalar(value, text_)) {
    } else if (const MarkedText* string = value.as<MarkedText>()) {
      quote(*string);
    } else if (const Dict* dict = value.as<Dict>()) {
      print_dict(*dict, level);
    } else if (const List* list = value.as_list();
               list != nullptr && (list->kind == List::Kind::list || list->kind == List::Kind::tuple)) {
      text_.append("[");
      for (const Value& item : list->items) {
        separate(&item != &list->items.front(), level + 1);
        print(item, level + 1);
      }
      if (!list->items.empty()) new_line(level);
      text_.append("]");
    } else {
      throw Error(std::string("a value of type ") + value.type_name() + " cannot be written as JSON");
    }
    budget_.charge(16 + text_.size() - before);
  }

  MarkedText take() { return std::move(text_); }

 private:
  static std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    return std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity") : shortest(number);
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    budget_.charge(level * style_.indent->size());
    text_.append("\n");
    for (std::size_t i = 0; i < level; ++i) text_.append(*style_.indent);
  }

  void separate(bool follows, std::size_t level) {
    budget_.charge(style_.between_items.size() + style_.after_key.size());
    if (follows) text_.append(style_.between_items);
    new_line(level);
  }

  void print_dict(const Dict& dict, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto* entry : entries) {
        if (entry->first.as<MarkedText>() == nullptr) throw Error("keys that are not strings cannot be sorted");
      }
      budget_.charge(64 * entries.size());
      std::ranges::sort(entries, {}, [](const auto* entry) { return entry->first.template as<MarkedText>()->bytes(); });
    }
    text_.append("{");
    bool follows = false;
    for (const auto* entry : entries) {
      separate(std::exchange(follows, true), level + 1);
      print_key(entry->first);
      text_.append(style_.after_key);
      print(entry->second, level + 1);
    }
    if (follows) new_line(level);
    text_.append("}");
  }

  void print_key(const Value& key) {
    if (const MarkedText* string = key.as<MarkedText>()) return quote(*string);
    if (key.as_list() != nullptr) throw Error("a tuple cannot be a key of JSON");
    text_.append("\"");
    print(key, 0);
    text_.append("\"");
  }

  void quote(const MarkedText& string) {
    constexpr std::string_view letters = "\"\\bfnrt";
    constexpr std::string_view meanings = "\"\\\b\f\n\r\t";
    text_.append("\"");
    for (MarkedCharacters characters(string); !characters.done();) {
      const auto [bytes, c, by_user] = characters.next();
      const std::size_t special = c < 0x80 ? meanings.find(static_cast<char>(c)) : std::string_view::npos;
      std::string shown(bytes);
      if (special != std::string_view::npos) {
        shown = std::string("\\") + letters[special];
      } else if (c < 0x20 || (style_.ensure_ascii && c > 0x7F && c < 0x10000)) {
        shown = "\\u" + hexadecimal(c, 4);
      } else if (style_.ensure_ascii && c >= 0x10000) {
        shown = "\\u" + hexadecimal(0xD800 + ((c - 0x10000) >> 10), 4) + "\\u" +
                hexadecimal(0xDC00 + ((c - 0x10000) & 0x3FF), 4);
      }
      text_.append(shown, by_user);
    }
    text_.append("\"");
  }

  const JsonStyle& style_;
  Budget& budget_;
  MarkedText text_;
};

}  // namespace

std::string shortest(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const std::string text(buffer, std::to_chars(buffer, std::end(buffer), number, std::chars_format::scientific).ptr);
  const std::size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent >= -4 && exponent < 16) {
    std::string fixed(buffer, std::to_chars(buffer, std::end(buffer), number, std::chars_format::fixed).ptr);
    return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
  }
  return text;
}

MarkedText representation_of(const Value& value, Budget& budget) {
  MarkedText text;
  append_representation(value, text, budget);
  return text;
}

void append_text_of(const Value& value, MarkedText& text, Budget& budget) {
  if (value.is_undefined()) return;
  if (const MarkedText* string = value.as<MarkedText>()) {
    budget.charge(string->size());
    text.append(*string);
  } else {
    append_representation(value, text, budget);
  }
}

MarkedText text_of(const Value& value, Budget& budget) {
  MarkedText text;
  append_text_of(value, text, budget);
  return text;
}

MarkedText json_of(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonPrinter printer(style, budget);
  printer.print(value, 0);
  return printer.take();
}

}  // namespace draftproof::jinja
