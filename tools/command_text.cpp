// SPDX-License-Identifier: MIT
#include "tools/command_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace draftproof {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* glossary = "docs/glossary.md defines the terms.";

std::string joined(const Texts& texts, const char* between) { return fmt::format("{}", fmt::join(texts, between)); }

/// Short names first, as people read them.
Texts flags_of(const OptionText& text) {
  Texts flags = text.flags;
  std::stable_partition(flags.begin(), flags.end(), [](const std::string& flag) { return !flag.starts_with("--"); });
  return flags;
}

/// "f32|bf16|q8", "FILE", "N..."; empty for a flag.
std::string value_of(const OptionText& text) {
  if (text.value.empty()) return "";
  const bool placeholder = text.choices.empty() || text.list;
  return (placeholder ? text.value : joined(text.choices, "|")) + (text.list ? "..." : "");
}

OptionText help_flag() { return {.flags = {"-h", "--help"}, .help = "print this help and exit"}; }
OptionText version_flag() { return {.flags = {"--version"}, .help = "print the version, the commit and the kernels"}; }

/// Every option of a command, as it is listed, with those that all commands have.
std::vector<OptionText> options_of(const Command& command) {
  std::vector<OptionText> list;
  for (const Option& option : command.options()) {
    if (!option.text().flags.empty()) list.push_back(option.text());
  }
  list.push_back(help_flag());
  if (command.path().find(' ') == std::string::npos) list.push_back(version_flag());
  return list;
}

std::vector<OptionText> arguments_of(const Command& command) {
  std::vector<OptionText> list;
  for (const Option& option : command.options()) {
    if (!option.text().position.empty()) list.push_back(option.text());
  }
  return list;
}

std::string explanation(const OptionText& text) {
  std::string help = text.help;
  if (text.required && text.position.empty()) help += " (required)";
  if (!text.initial.empty()) help += " [default: " + text.initial + "]";
  return help;
}

std::string usage(const Command& command) {
  std::string line = command.path();
  if (!command.subcommands().empty()) return line + " COMMAND";
  line += " [OPTIONS]";
  for (const OptionText& argument : arguments_of(command)) {
    const std::string name = argument.position + (argument.list ? "..." : "");
    line += argument.required ? " " + name : " [" + name + "]";
  }
  return line;
}

/// Two columns; what is too wide for the first has its explanation on the next line.
std::string entry(const std::string& left, const std::string& right) {
  constexpr std::size_t indent = 30;
  constexpr std::size_t width = 100;
  std::string text = "  " + left;
  std::size_t column = text.size();
  if (column + 2 > indent) {
    text += "\n";
    column = 0;
  }
  std::size_t at = 0;
  bool first = true;
  while (at < right.size()) {
    const std::size_t end = std::min(right.find(' ', at), right.size());
    const std::string word = right.substr(at, end - at);
    if (first || column + 1 + word.size() > width) {
      text += (first ? "" : "\n") + std::string(indent - (first ? column : 0), ' ');
      column = indent;
    } else {
      text += " ";
      ++column;
    }
    text += word;
    column += word.size();
    first = false;
    at = end + 1;
  }
  return text + "\n";
}

/// Headings in the order of their first option.
Texts groups_of(const std::vector<OptionText>& options) {
  Texts groups;
  for (const OptionText& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  return groups;
}

/// The command and all below it, in the order of their definition.
std::vector<const Command*> all_commands(const Command& root) {
  std::vector<const Command*> list{&root};
  for (const auto& subcommand : root.subcommands()) {
    for (const Command* const below : all_commands(*subcommand)) list.push_back(below);
  }
  return list;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

}  // namespace

std::string help_text(const Command& command) {
  std::string text = command.help() + "\n\nUsage: " + usage(command) + "\n";
  if (!command.subcommands().empty()) text += "\nCommands:\n";
  for (const auto& subcommand : command.subcommands()) text += entry(subcommand->name(), subcommand->help());
  const std::vector<OptionText> arguments = arguments_of(command);
  if (!arguments.empty()) text += "\nArguments:\n";
  for (const OptionText& argument : arguments) text += entry(argument.position, explanation(argument));
  const std::vector<OptionText> options = options_of(command);
  for (const std::string& group : groups_of(options)) {
    text += "\n" + (group.empty() ? "Options" : group) + ":\n";
    for (const OptionText& option : options) {
      if (option.group != group) continue;
      const Texts flags = flags_of(option);
      const std::string margin = flags.front().starts_with("--") ? "    " : "";
      const std::string value = value_of(option);
      text += entry(margin + joined(flags, ", ") + (value.empty() ? "" : " " + value), explanation(option));
    }
  }
  return text + "\n" + glossary + "\n";
}

namespace {

/// Text as troff shows it: backslashes, hyphens that can be copied, and no request at the start of a line.
std::string troff(const std::string& text) {
  std::string escaped = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (escaped.starts_with(".") || escaped.starts_with("'")) escaped = "\\&" + escaped;
  return escaped;
}

std::string man_of_options(const Command& command) {
  std::string page;
  for (const OptionText& argument : arguments_of(command)) {
    page += ".TP\n\\fI" + troff(argument.position) + "\\fR\n" + troff(explanation(argument)) + "\n";
  }
  for (const OptionText& option : options_of(command)) {
    const std::string value = value_of(option);
    Texts names;
    for (const std::string& flag : flags_of(option)) names.push_back("\\fB" + troff(flag) + "\\fR");
    page += ".TP\n" + joined(names, ", ") + (value.empty() ? "" : " \\fI" + troff(value) + "\\fR") + "\n" +
            troff(explanation(option)) + "\n";
  }
  return page;
}

}  // namespace

std::string man_page(const Command& root, const std::string& version) {
  std::string page = ".TH DRAFTPROOF 1 \"\" \"draftproof " + version + "\" \"User Commands\"\n";
  page += ".SH NAME\ndraftproof \\- speculative decoding you can prove\n";
  page += ".SH SYNOPSIS\n\\fBdraftproof\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  page += ".SH DESCRIPTION\n" + troff(root.help()) + "\n" + man_of_options(root);
  page += ".SH COMMANDS\n";
  for (const Command* const command : all_commands(root)) {
    if (command == &root) continue;
    page += ".SS " + troff(usage(*command)) + "\n" + troff(command->help()) + "\n";
    if (command->subcommands().empty()) page += man_of_options(*command);
  }
  page +=
      ".SH EXIT STATUS\n"
      ".TP\n0\nThe command did what it was asked for; what was checked is right.\n"
      ".TP\n1\nA check failed, or two results differ.\n"
      ".TP\n2\nNothing was proved: the checks could not decide.\n"
      ".TP\n3\nBad input: one message on standard error names the file, option or field.\n"
      ".TP\n4\nNo fault of a text was found, but a draft is worse than it could be.\n";
  return page + ".SH SEE ALSO\n" + troff(glossary) + "\n";
}

namespace {

bool is_file(const std::string& placeholder) {
  return placeholder == "FILE" || placeholder == "FOLDER" || placeholder == "MODEL";
}

std::string shell_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

/// The loop body of bash and zsh that appends `word` to `at` when that names a subcommand, and then does `also`.
std::string descend(const Command& root, const std::string& word, const std::string& also) {
  Texts paths;
  for (const Command* const command : all_commands(root)) {
    if (command != &root) paths.push_back("\"" + command->path() + "\"");
  }
  const std::string longer = "\"$at " + word + "\"";
  return "    case " + longer + " in\n      " + joined(paths, "|\\\n      ") + ") at=" + longer + also +
         " ;;\n    esac\n";
}

Texts words_of(const Command& command) {
  Texts words;
  for (const auto& subcommand : command.subcommands()) words.push_back(subcommand->name());
  for (const OptionText& argument : arguments_of(command)) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
  }
  for (const OptionText& option : options_of(command)) {
    for (const std::string& flag : flags_of(option)) words.push_back(flag);
  }
  return words;
}

std::string bash_script(const Command& root) {
  std::string values;  // what follows an option that takes one; anything but a list of choices is a file's name
  std::string words;
  for (const Command* const command : all_commands(root)) {
    for (const OptionText& option : options_of(*command)) {
      if (option.value.empty()) continue;
      Texts patterns;
      for (const std::string& flag : flags_of(option)) patterns.push_back("\"" + command->path() + " " + flag + "\"");
      values += "    " + joined(patterns, "|") + ") words=" + shell_quoted(joined(option.choices, " ")) + " ;;\n";
    }
    words += "        \"" + command->path() + "\") words=" + shell_quoted(joined(words_of(*command), " ")) + " ;;\n";
  }
  return "# Completion of draftproof for bash, written by `draftproof completion bash`.\n"
         "_draftproof() {\n"
         "  local at=draftproof i words current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n" +
         descend(root, "${COMP_WORDS[i]}", "") +
         "  done\n"
         "  case \"$at $previous\" in\n" +
         values +
         "    *)\n"
         "      case \"$at\" in\n" +
         words +
         "      esac ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _draftproof draftproof\n";
}

/// Inside of brackets of a specification of _arguments.
std::string zsh_text(const std::string& text) {
  return replaced(replaced(replaced(text, "[", "\\["), "]", "\\]"), ":", "\\:");
}

std::string zsh_value(const OptionText& text, bool file) {
  const std::string action = !text.choices.empty() ? "(" + joined(text.choices, " ") + ")" : file ? "_files" : " ";
  return ":" + zsh_text(text.value) + ":" + action;
}

std::string zsh_arguments(const Command& command) {
  Texts lines;
  for (const OptionText& option : options_of(command)) {
    const Texts flags = flags_of(option);
    const std::string value = option.value.empty() ? "" : zsh_value(option, is_file(option.value));
    for (const std::string& flag : flags) {
      lines.push_back(shell_quoted((option.list ? "*" : "(" + joined(flags, " ") + ")") + flag + "[" +
                                   zsh_text(option.help) + "]" + value));
    }
  }
  for (OptionText argument : arguments_of(command)) {
    argument.value = argument.position;
    lines.push_back(shell_quoted((argument.list ? "*" : "") + zsh_value(argument, true)));
  }
  return "_arguments \\\n        " + joined(lines, " \\\n        ") + " ;;\n";
}

std::string zsh_script(const Command& root) {
  std::string cases;
  for (const Command* const command : all_commands(root)) {
    cases += "    (" + shell_quoted(command->path()) + ")\n      ";
    if (command->subcommands().empty()) {
      cases += zsh_arguments(*command);
      continue;
    }
    Texts list;
    for (const auto& subcommand : command->subcommands()) {
      list.push_back(shell_quoted(replaced(subcommand->name() + ":" + subcommand->help(), "\n", " ")));
    }
    for (const OptionText& option : options_of(*command)) {
      for (const std::string& flag : flags_of(option)) list.push_back(shell_quoted(flag + ":" + option.help));
    }
    cases += "list=(\n        " + joined(list, "\n        ") + ")\n      _describe command list ;;\n";
  }
  return "#compdef draftproof\n"
         "# Completion of draftproof for zsh, written by `draftproof completion zsh`.\n"
         "_draftproof() {\n"
         "  local at=draftproof i depth=0\n"
         "  local -a list\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n" +
         descend(root, "${words[i]}", "; (( ++depth ))") +
         "  done\n"
         "  shift $depth words\n"
         "  (( CURRENT -= depth ))\n"
         "  case $at in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _draftproof ]]; then _draftproof \"$@\"; else compdef _draftproof draftproof; fi\n";
}

/// In single quotes of fish only these two characters are special.
std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const OptionText& option) {
  std::string line;
  for (const std::string& flag : flags_of(option)) {
    line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  }
  if (!option.value.empty()) line += is_file(option.value) ? " -r -F" : " -x";
  if (!option.choices.empty()) line += " -a " + fish_quoted(joined(option.choices, " "));
  return line + " -d " + fish_quoted(option.help);
}

std::string fish_script(const Command& root) {
  std::string script =
      "# Completion of draftproof for fish, written by `draftproof completion fish`.\n"
      "function __draftproof_at\n"
      "  set -l at draftproof\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$at $word\"\n"
      "      case";
  for (const Command* const command : all_commands(root)) {
    if (command != &root) script += " " + fish_quoted(command->path());
  }
  script +=
      "\n"
      "        set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c draftproof -f\n";
  for (const Command* const command : all_commands(root)) {
    const std::string condition = "__draftproof_at " + fish_quoted(command->path());
    const std::string start = "complete -c draftproof -n " + fish_quoted(condition);
    for (const auto& subcommand : command->subcommands()) {
      script += start + " -a " + subcommand->name() + " -d " + fish_quoted(subcommand->help()) + "\n";
    }
    for (const OptionText& argument : arguments_of(*command)) {
      script += start + (argument.choices.empty() ? " -F" : " -a " + fish_quoted(joined(argument.choices, " "))) + "\n";
    }
    for (const OptionText& option : options_of(*command)) script += start + fish_option(option) + "\n";
  }
  return script;
}

}  // namespace

std::string completion_script(const Command& root, const std::string& shell) {
  return shell == "bash" ? bash_script(root) : shell == "zsh" ? zsh_script(root) : fish_script(root);
}

}  // namespace draftproof
