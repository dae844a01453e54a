// SPDX-License-Identifier: MIT
#include "tools/line_editor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>

namespace draftproof {
namespace {

constexpr const char* prompt = "> ";

template <class Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

LineEditor::LineEditor() : terminal_(isatty(STDIN_FILENO) != 0) {
  if (!terminal_ || isatty(STDOUT_FILENO) == 0) return;
  void* const library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) return;
  std::setlocale(LC_CTYPE, "C.UTF-8");  // the editor moves by characters
  readline_ = function_of<char*(const char*)>(library, "readline");
  add_history_ = function_of<int(const char*)>(library, "add_history");
  if (add_history_ == nullptr) readline_ = nullptr;
}

std::optional<std::string> LineEditor::next() {
  std::string line;
  if (readline_ == nullptr) {
    if (terminal_) std::cout << prompt << std::flush;
    return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
  }
  char* const text = readline_(prompt);
  if (text == nullptr) return std::nullopt;
  line = text;
  std::free(text);
  if (!line.empty()) add_history_(line.c_str());
  return line;
}

}  // namespace draftproof
