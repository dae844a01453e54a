// SPDX-License-Identifier: MIT
// A source file as the rules see it: its lines, the code in them without comments and literals, and its includes.
#pragma once

#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace draftproof::tidy {

struct Include {
  int line;
  std::string target;
  bool angled;  // <...>, else "..."
};

/// An identifier of the code, with what stands around it.
struct Word {
  int line;
  std::string text;
  std::string_view before;  // the code of its line up to the word
  std::string_view after;   // and from its end on
};

struct Source {
  std::string path;                // from the root of the tree
  std::vector<std::string> lines;  // as written
  std::vector<std::string> code;   // comments and the insides of literals blanked, same lines and columns
  std::vector<Include> includes;
  std::vector<Word> words;
};

inline bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Blanks comments, strings, raw strings and characters, line breaks excepted.
inline std::string without_comments_and_literals(const std::string& text) {
  std::string code = text;
  const auto blank = [&](std::size_t from, std::size_t until) {
    for (std::size_t i = from; i < until && i < code.size(); ++i)
      if (code[i] != '\n') code[i] = ' ';
  };
  const auto end_of = [&](std::string_view mark, std::size_t from) {
    const std::size_t at = text.find(mark, from);
    return at == std::string::npos ? text.size() : at + mark.size();
  };
  for (std::size_t i = 0; i < text.size();) {
    const bool separates_digits = i > 0 && is_word(text[i - 1]);
    std::size_t end = i + 1;
    if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = end_of("*/", i + 2);
      blank(i, end);
    } else if (text.compare(i, 2, "R\"") == 0 && !separates_digits) {
      const std::size_t open = std::min(text.find('(', i), text.size());
      end = end_of(")" + text.substr(i + 2, open - i - 2) + "\"", open);
      blank(i + 2, end - 1);
    } else if (text[i] == '"' || (text[i] == '\'' && !separates_digits)) {
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      blank(i + 1, end);
      ++end;
    }
    i = end;
  }
  return code;
}

inline Source parse(std::string path, const std::string& text) {
  Source source{std::move(path), lines_of(text), lines_of(without_comments_and_literals(text)), {}, {}};
  for (std::size_t i = 0; i < source.code.size(); ++i) {
    const std::string_view code = source.code[i];
    const int line = static_cast<int>(i) + 1;
    const std::size_t hash = code.find_first_not_of(' ');
    if (hash != std::string_view::npos && code[hash] == '#' && code.find("include", hash) != std::string_view::npos) {
      const std::string& written = source.lines[i];
      const std::size_t open = written.find_first_of("<\"");
      const std::size_t close = written.find_first_of(">\"", open + 1);
      if (open != std::string::npos && close != std::string::npos) {
        source.includes.push_back({line, written.substr(open + 1, close - open - 1), written[open] == '<'});
        continue;
      }
    }
    for (std::size_t at = 0; at < code.size();) {
      std::size_t end = at;
      while (end < code.size() && is_word(code[end])) ++end;
      if (end > at && std::isdigit(static_cast<unsigned char>(code[at])) == 0) {
        source.words.push_back({line, std::string(code.substr(at, end - at)), code.substr(0, at), code.substr(end)});
      }
      at = end > at ? end : at + 1;
    }
  }
  return source;
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline bool starts_with_any(std::string_view text, const std::vector<std::string>& beginnings) {
  for (const std::string& beginning : beginnings)
    if (text.starts_with(beginning)) return true;
  return false;
}

}  // namespace draftproof::tidy
