// SPDX-License-Identifier: MIT
// The rules that the source tree is held to. Each takes one file and gives its faults, "path:line: what, and what to
// do instead"; each has samples in tidy_test.cpp that break it and samples that do not.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace draftproof::tidy {

using Faults = std::vector<std::string>;

inline std::string at(const Source& source, int line, const std::string& what) {
  return source.path + ":" + std::to_string(line) + ": " + what;
}

/// "ref/base" of "ref/base/token.h", "zoo" of "zoo/zoo.h".
inline std::string folder_of(const std::string& path) {
  const std::size_t first = path.find('/');
  if (first == std::string::npos) return "";
  const std::size_t second = path.find('/', first + 1);
  return path.substr(0, second == std::string::npos ? first : second);
}

/// The architecture: which files a folder may include besides its own. "x/" is all below a folder, "x/y.h" one file.
struct Layer {
  std::string folder;  // "ref/base"
  std::vector<std::string> may_include;
};

/// The names in backticks.
inline std::vector<std::string> quoted_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t open = text.find('`'); open != std::string::npos; open = text.find('`', open)) {
    const std::size_t close = text.find('`', open + 1);
    if (close == std::string::npos) break;
    names.push_back(text.substr(open + 1, close - open - 1));
    open = close + 1;
  }
  return names;
}

/// Reads the table of docs/architecture.md whose columns are: folder, what it holds, what it may include.
inline std::vector<Layer> layers_in(const std::string& document) {
  std::vector<Layer> layers;
  bool inside = false;
  for (const std::string& line : lines_of(document)) {
    if (line == "| folder | holds | may include |") inside = true;
    if (inside && !line.starts_with("|")) break;
    const std::vector<std::string> folder = quoted_names(line.substr(0, std::min(line.size(), line.find(" | "))));
    if (!inside || folder.size() != 1) continue;
    layers.push_back({folder[0].substr(0, folder[0].size() - 1), quoted_names(line.substr(line.rfind(" | ") + 3))});
  }
  return layers;
}

inline const std::vector<Layer>& layers() {
  static const std::vector<Layer> list =
      layers_in(text_of(std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "docs/architecture.md"));
  return list;
}

/// Of everything but the tests, which may know whatever they test.
inline Faults layering(const Source& source) {
  if (source.path.starts_with("tests/")) return {};
  const std::string folder = folder_of(source.path);
  const auto layer = std::find_if(layers().begin(), layers().end(), [&](const Layer& l) { return folder == l.folder; });
  if (layer == layers().end()) {
    return {at(source, 1, "a folder without a row in the table of docs/architecture.md; say what it may include")};
  }
  Faults faults;
  for (const Include& include : source.includes) {
    if (include.angled) continue;
    const bool own = folder_of(include.target) == folder;
    if (own || starts_with_any(include.target, layer->may_include)) continue;
    faults.push_back(at(
        source, include.line,
        folder + " may not know " + include.target + "; pass what it needs in, or move the code to a folder that may"));
  }
  return faults;
}

/// Other people's libraries, each behind few files of ours.
struct Library {
  const char* header;  // how the name in <...> begins
  std::vector<std::string> at_home;
};

inline const std::vector<Library>& libraries() {
  static const std::vector<Library> list = {
      {"nlohmann/", {"ref/formats/", "oracle/report/", "serve/", "tools/"}},
      {"httplib", {"serve/client.cpp", "serve/connection.", "serve/http_server.", "serve/server.cpp"}},
      {"hdf5", {"ref/formats/"}},
      {"pcre2", {"ref/text/"}},
      {"unicode/", {"ref/text/"}},
      {"xxhash", {"ref/base/"}},
      {"cblas", {"kernels/openblas.cpp"}},
      {"dlfcn", {"kernels/openblas.cpp", "tools/line_editor.cpp"}},
      {"omp.h", {"kernels/threads.cpp"}},
      {"immintrin", {"kernels/lanes_"}},
      {"arm_neon", {"kernels/lanes_"}},
      {"boost/", {"oracle/"}},
      {"gmock/", {"oracle/matchers.h"}},
      {"CLI/", {"tools/command_line.cpp"}},
      {"Eigen/", {"oracle/twin/"}},
  };
  return list;
}

inline Faults third_party(const Source& source) {
  Faults faults;
  if (source.path.starts_with("tests/")) return faults;
  for (const Include& include : source.includes) {
    for (const Library& library : libraries()) {
      if (!include.target.starts_with(library.header) || starts_with_any(source.path, library.at_home)) continue;
      std::string homes;
      for (const std::string& home : library.at_home) homes += " " + home;
      faults.push_back(
          at(source, include.line,
             "<" + include.target + "> belongs in" + (homes.empty() ? " tests/" : homes) + "; use its interface"));
    }
  }
  return faults;
}

/// A name that makes results depend on more than their inputs.
struct Ban {
  std::set<std::string> names;
  bool called;  // only when a parenthesis follows
  std::vector<std::string> allowed_in;
  const char* instead;
};

inline const std::vector<Ban>& bans() {
  static const std::vector<Ban> list = {
      {{"exp",   "expf",  "expl",  "exp2", "exp2f", "expm1", "log",    "logf",  "logl",  "log2",   "log2f",
        "log10", "log1p", "pow",   "powf", "powl",  "sin",   "sinf",   "cos",   "cosf",  "sincos", "tan",
        "tanf",  "tanh",  "tanhf", "sinh", "cosh",  "asin",  "acos",   "atan",  "atan2", "asinh",  "acosh",
        "atanh", "cbrt",  "hypot", "erf",  "erff",  "erfc",  "tgamma", "lgamma"},
       true,
       {"kernels/exp.h", "kernels/math64.cpp", "tests/"},
       "libm picks another variant on another CPU; use kernels/exp.h or kernels/math64.h"},
      {{"reduce", "transform_reduce", "inclusive_scan", "exclusive_scan"},
       true,
       {},
       "its order is unspecified; write the loop in its documented order"},
      {{"reduction"}, true, {}, "a float reduction has no order; a thread owns the outputs it writes"},
      {{"rand", "srand", "rand_r", "drand48", "random_device", "mt19937", "mt19937_64", "minstd_rand",
        "default_random_engine"},
       false,
       {"tests/"},
       "random answers come from ref/acceptance/random_source.h, by key"},
      {{"unordered_map", "unordered_set", "unordered_multimap", "unordered_multiset"},
       false,
       {"ref/text/", "tests/"},
       "its order is the library's; use std::map, or a sorted vector"},
      {{"exists"},
       true,
       {"ref/base/presence.", "tests/"},
       "a link to nothing or a failing look would count as absence; use ref/base/presence.h"},
      {{"thread_local"},
       false,
       {"tests/", "kernels/threads.cpp"},
       "results would depend on the thread; pass the state in"},
      {{"steady_clock", "system_clock", "high_resolution_clock", "clock_gettime", "gettimeofday"},
       false,
       {"ref/base/stopwatch.h", "bench/", "serve/", "tools/", "tests/"},
       "clocks are for statistics; let ref/base/stopwatch.h measure"},
  };
  return list;
}

inline Faults determinism(const Source& source) {
  Faults faults;
  for (const Include& include : source.includes) {
    if (include.target == "random" && !source.path.starts_with("tests/")) {
      faults.push_back(at(source, include.line, "<random> differs by library; use ref/acceptance/random_source.h"));
    }
  }
  for (const Word& word : source.words) {
    for (const Ban& ban : bans()) {
      if (!ban.names.contains(word.text) || starts_with_any(source.path, ban.allowed_in)) continue;
      const std::size_t next = word.after.find_first_not_of(' ');
      const bool called = next != std::string_view::npos && word.after[next] == '(';
      const bool member = word.before.ends_with(".") || word.before.ends_with("->");
      if (ban.called && (!called || member)) continue;
      faults.push_back(at(source, word.line, word.text + ": " + ban.instead));
    }
    if (word.text == "omp" && word.before.find("pragma") != std::string_view::npos &&
        source.path != "kernels/threads.cpp") {
      faults.push_back(at(source, word.line, "#pragma omp: use parallel_ranges of kernels/threads.h"));
    }
  }
  return faults;
}

/// Flags that change what an expression means, in code and in anything that builds it.
inline Faults exact_arithmetic(const Source& source) {
  Faults faults;
  // In two parts, so that this file does not hold them.
  const std::vector<std::string> flags = {
      "-ff"
      "ast-math",
      "-O"
      "fast",
      "-funsafe"
      "-math",
      "-fassociative"
      "-math",
      "-ffp-contract="
      "fast",
      "fp_contract"
      "(on)"};
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    for (const std::string& flag : flags) {
      if (source.lines[i].find(flag) == std::string::npos) continue;
      faults.push_back(
          at(source, static_cast<int>(i) + 1, flag + ": write the operations you mean; vectorize by lanes"));
    }
  }
  return faults;
}

/// Hashed containers are for looking things up. `names`: of every such container in the folder.
inline std::set<std::string> hashed_names(const Source& source) {
  std::set<std::string> names;
  for (const Word& word : source.words) {
    if (!word.text.starts_with("unordered_")) continue;
    const std::size_t close = word.after.rfind('>');
    if (close == std::string_view::npos) continue;
    std::string name;
    for (const char c : word.after.substr(close + 1)) {
      if (is_word(c)) name += c;
      if (!is_word(c) && !name.empty()) break;
    }
    names.insert(name);
  }
  return names;
}

inline Faults never_iterated(const Source& source, const std::set<std::string>& names) {
  Faults faults;
  for (const Word& word : source.words) {
    if (!names.contains(word.text)) continue;
    const std::size_t loop = word.before.find("for (");
    const bool ranged = loop != std::string_view::npos && word.before.find(" : ", loop) != std::string_view::npos &&
                        word.after.starts_with(")");
    if (ranged || word.after.starts_with(".begin(") || word.after.starts_with(".cbegin(")) {
      faults.push_back(at(source, word.line,
                          word.text + " is hashed: its order is the library's; walk what it was "
                                      "built from"));
    }
  }
  return faults;
}

/// A loop over a part of what a call of `parse` returns: C++20 ends the life of the whole before the first turn.
inline Faults loops_over_what_lives(const Source& source) {
  static const std::regex loop_over_call(R"(\bfor \(.+ : [\w:]*\bparse\()");
  Faults faults;
  for (std::size_t i = 0; i < source.code.size(); ++i) {
    std::smatch found;
    if (!std::regex_search(source.code[i], found, loop_over_call)) continue;
    const std::string rest = found.suffix();
    std::size_t end = 0;  // of the call
    for (int open = 1; open > 0 && end < rest.size(); ++end) open += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
    if (end >= rest.size() || (rest[end] != '[' && rest[end] != '.')) continue;
    faults.push_back(at(source, static_cast<int>(i) + 1,
                        "what parse() returns is gone before the loop begins; give it a name first"));
  }
  return faults;
}

inline Faults form(const Source& source) {
  Faults faults;
  if (source.lines.empty() || source.lines[0] != "// SPDX-License-Identifier: MIT") {
    faults.push_back(at(source, 1, "starts with: // SPDX-License-Identifier: MIT"));
  }
  if (source.path.ends_with(".h") &&
      std::find(source.lines.begin(), source.lines.end(), "#pragma once") == source.lines.end()) {
    faults.push_back(at(source, 1, "a header says #pragma once"));
  }
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    const std::string& text = source.lines[i];
    const int line = static_cast<int>(i) + 1;
    const auto columns = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
    if (columns > 120) faults.push_back(at(source, line, std::to_string(columns) + " columns; break it at 120"));
    for (const char* mark : {"TO"
                             "DO",
                             "FIX"
                             "ME"}) {
      if (text.find(mark) != std::string::npos) faults.push_back(at(source, line, "do it now, or leave it unsaid"));
    }
  }
  return faults;
}

/// A private word, and the word of the field for it.
struct PrivateWord {
  const char* word;
  const char* instead;
};

inline const std::vector<PrivateWord>& private_words() {
  static const std::vector<PrivateWord> list = {
      {"guess", "draft token, propose"},
      {"stood", "accepted"},
      {"fell", "rejected"},
      {"chance", "random source, probability"},
      {"law", "distribution; \"row law\" and \"causal law\" stay"},
      {"ledger", "recorded draws"},
      {"misfit", "request error"},
      {"unfit", "self test"},
      {"horizon", "pending rows"},
      {"resting", "final"},
      {"oracular", "perfect"},
      {"moody", "variable-length"},
      {"dialect", "perturbed; names"},
      {"unsaid", "missing"},
      {"untold", "missing"},
      {"afresh", "from scratch"},
      {"colour", "color"},
      {"behaviour", "behavior"},
      {"neighbour", "neighbor"},
      {"quantis", "quantiz"},
      {"penalis", "penaliz"},
      {"normalis", "normaliz"},
      {"serialis", "serializ"},
      {"initialis", "initializ"},
      {"recognis", "recogniz"},
      {"honour", "honor"},
      {"licence", "license"},
  };
  return list;
}

/// Words that names do not use, though prose may.
inline const std::vector<PrivateWord>& private_words_of_names() {
  static const std::vector<PrivateWord> list = {
      {"question", "request, input, setup"},
      {"teller", "writer"},
      {"telling", "response"},
      {"patience", "timeout"},
      {"otherwise", "default_value, differently"},
      {"least", "min"},
      {"most", "max"},
  };
  return list;
}

/// The words of a line: runs of letters, cut where a capital follows a small letter; in small letters.
inline std::vector<std::string> words_in(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;
  bool small = false;
  for (const char c : line) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool capital = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (letter && (!inside || (capital && small))) words.emplace_back();
    if (letter) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    inside = letter;
    small = letter && !capital;
  }
  return words;
}

/// Names and prose use the words of the field, in American spelling (docs/glossary.md).
inline Faults plain_words(const Source& source) {
  Faults faults;
  if (source.path.starts_with("tests/tidy/")) return faults;
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::string before;
    for (const std::string& word : words_in(source.lines[i])) {
      for (const PrivateWord& banned : private_words()) {
        const bool law = std::string(banned.word) == "law";
        const bool is_it = law ? word == "law" || word == "laws" : word.starts_with(banned.word);
        if (!is_it || (law && (before == "row" || before == "causal" || before == "two" || before == "both"))) continue;
        faults.push_back(at(source, static_cast<int>(i) + 1, "'" + word + "': write " + banned.instead));
      }
      before = word;
    }
  }
  return faults;
}

inline Faults plain_names(const Source& source) {
  static const std::set<std::string> english = {"at_least",    "at_most",       "most_probable",
                                                "most_likely", "most_frequent", "least_likely"};
  Faults faults;
  if (source.path.starts_with("tests/tidy/")) return faults;
  for (const Word& word : source.words) {
    if (std::ranges::any_of(english, [&](const auto& phrase) { return word.text.find(phrase) != std::string::npos; })) {
      continue;
    }
    const bool capital = std::isupper(static_cast<unsigned char>(word.text[0])) != 0;
    if (capital && source.path.starts_with("tests/")) continue;  // names of tests are sentences
    for (const std::string& part : words_in(word.text)) {
      for (const PrivateWord& banned : private_words_of_names()) {
        if (part != banned.word && part != banned.word + std::string("s")) continue;
        faults.push_back(at(source, word.line, "'" + word.text + "': write " + banned.instead));
      }
    }
  }
  return faults;
}

/// Files compiled for an instruction set, and what they include: an inline function of the library, instantiated there,
/// may be the copy that the linker keeps for everyone, and crash older machines.
inline bool is_for_one_instruction_set(const std::string& path) {
  const std::set<std::string> files = {"kernels/amx.cpp",       "kernels/avx2.cpp",        "kernels/avx2_vnni.cpp",
                                       "kernels/avx512.cpp",    "kernels/avx512_vnni.cpp", "kernels/avx512_bf16.cpp",
                                       "kernels/neon.cpp",      "kernels/canonical.h",     "kernels/exp.h",
                                       "kernels/formats.h",     "kernels/kernels.h",       "kernels/key_values.h",
                                       "kernels/delta_state.h", "kernels/tables.h"};
  return files.contains(path) || starts_with_any(path, {"kernels/lanes_", "bench/roofline/probes"}) ||
         path.ends_with(".inc");
}

inline Faults nothing_with_linkage(const Source& source) {
  Faults faults;
  if (!is_for_one_instruction_set(source.path)) return faults;
  const std::set<std::string> plain = {"immintrin.h", "arm_neon.h", "cstddef", "cstdint", "stddef.h", "stdint.h"};
  for (const Include& include : source.includes) {
    if (include.angled ? plain.contains(include.target) : is_for_one_instruction_set(include.target)) continue;
    faults.push_back(at(source, include.line,
                        include.target + " may bring functions with linkage into a file compiled "
                                         "for one instruction set; write the loop"));
  }
  const std::set<std::string> types = {"size_t",   "ptrdiff_t", "byte",    "int8_t",   "int16_t",
                                       "int32_t",  "int64_t",   "uint8_t", "uint16_t", "uint32_t",
                                       "uint64_t", "uintptr_t", "intptr_t"};
  for (const Word& word : source.words) {
    if (!word.before.ends_with("std::") || types.contains(word.text)) continue;
    faults.push_back(at(source, word.line, "std::" + word.text + " has linkage; write it out with internal linkage"));
  }
  return faults;
}

/// Whether a word is the name of a function that is declared or defined there, and not called: something of a type
/// comes before it, and its parameters follow.
inline bool declares_function(const Word& word) {
  static const std::regex type(R"(\s*[\w:<>,&*\[\]~ ]*[\w>][ &*]+(\w+::)*)");
  static const std::regex statement(
      R"(\s*(return|else|throw|delete|new|case|co_\w+)\b.*|.* (&&|&|\*|<|>) .*|.*[^:]:[^:].*)");
  const std::size_t last = word.before.find_last_not_of(' ');
  if (!word.after.starts_with("(") || last == std::string_view::npos) return false;
  if (!is_word(word.before[last]) && std::string_view(">&*:").find(word.before[last]) == std::string_view::npos)
    return false;
  const std::string before(word.before);
  if (!std::regex_match(before, type) || std::regex_match(before, statement)) return false;
  return !before.ends_with("::") || !before.starts_with(" ");
}

/// Of the whole tree: functions that a header declares and nothing calls, headers that nothing includes. A function
/// that a library calls says `override`.
inline Faults unreferenced(const std::vector<Source>& tree) {
  std::map<std::string, std::string> declared;  // name, and where
  std::set<std::string> used;
  std::set<std::string> included;
  for (const Source& source : tree) {
    for (const Include& include : source.includes) included.insert(include.target);
    const bool header = !source.path.ends_with(".cpp") && !starts_with_any(source.path, {"tests/", "docs/"});
    for (const Word& word : source.words) {
      const bool is_macro = source.code[static_cast<std::size_t>(word.line) - 1].starts_with("#");
      if (is_macro || !declares_function(word)) used.insert(word.text);
      else if (header && word.after.find(" override") == std::string_view::npos) {
        declared.try_emplace(word.text, at(source, word.line, word.text + " is called nowhere; remove it"));
      }
    }
  }
  Faults faults;
  for (const auto& [name, fault] : declared) {
    if (!used.contains(name) && std::islower(static_cast<unsigned char>(name[0])) != 0) faults.push_back(fault);
  }
  for (const Source& source : tree) {
    if (source.path.ends_with(".cpp") || included.contains(source.path)) continue;
    if (starts_with_any(source.path, {"tests/kernels/", "docs/"})) continue;  // included by their names alone
    faults.push_back(at(source, 1, "is included nowhere; remove it"));
  }
  return faults;
}

/// Of the whole tree: types at the scope of a namespace that two files define under one name. Not those that every
/// instruction set has.
inline Faults ambiguous_types(const std::vector<Source>& tree) {
  static const std::regex definition(R"((template.*> )?(struct|class|enum class|enum) (\w+)( final)?( :[^;]*)? \{.*)");
  std::map<std::string, std::string> defined;  // name, and the file
  Faults faults;
  for (const Source& source : tree) {
    if (starts_with_any(source.path, {"tests/", "docs/", "kernels/lanes_", "bench/roofline/probes"})) continue;
    for (std::size_t i = 0; i < source.code.size(); ++i) {
      std::smatch parts;
      if (!std::regex_match(source.code[i], parts, definition)) continue;
      const auto [place, is_new] = defined.try_emplace(parts[3], source.path);
      if (is_new || place->second == source.path) continue;
      faults.push_back(
          at(source, static_cast<int>(i) + 1,
             "the type " + parts[3].str() + " is also one of " + place->second + "; give it a name of its own"));
    }
  }
  return faults;
}

}  // namespace draftproof::tidy
