// SPDX-License-Identifier: MIT
// The command line. Commands, options and flags are defined once; the parser, --help, the man page and the shell
// completions all use that definition. Only command_line.cpp includes CLI11, which takes the compiler 10 s or more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace draftproof {

/// A number of bytes, given as 4GiB, 512MiB, 64KiB or digits alone.
struct ByteCount {
  std::uint64_t bytes = 0;
};

/// A number from 1 to `max`, or the word "auto".
struct NumberOrAuto {
  static constexpr int automatic = -1;
  int number = 0;
  int max = 0;
};

/// A real number from 0 to `max`, or the word "auto".
struct RealOrAuto {
  double number = 0;
  double max = 0;
  bool automatic = false;
};

/// Exit codes of the command.
enum class Exit : int { pass = 0, divergence = 1, undecided = 2, bad_input = 3, perf_regression = 4 };

/// What help texts, the man page and completions show of an option.
struct OptionText {
  std::vector<std::string> flags = {};  // "-p", "--prompt"; empty for an argument that has a position only
  std::string position = {};            // "TARGET"; empty for an option without a position
  std::string value = {};               // placeholder of its value, "TEXT"; empty for a flag
  std::string help = {};
  std::string group = {};                 // heading in --help
  std::string initial = {};               // the default, where it is shown
  std::vector<std::string> choices = {};  // every accepted value, where they are few
  bool required = false;
  bool list = false;  // takes several values
};

class Option {
 public:
  Option(CLI::Option& parser, OptionText text) : parser_(&parser), text_(std::move(text)) {}

  Option& required();
  /// Accepts decimal numbers in [least, most] only; "010", "nan" and numbers too large for the type are refused.
  /// Number: int, std::int64_t, std::uint64_t, double.
  template <class Number>
  Option& range(Number min, Number max);
  /// Of a number whose range begins at 0: refuses 0 itself.
  Option& not_zero();
  Option& choices(std::vector<std::string> texts);
  /// A list takes one value each time the option is given: --stop A --stop B.
  Option& one_each_time();
  /// How many values a list takes.
  Option& count(int min, int max);
  /// Splits each value of a list at this character.
  Option& separator(char between);
  Option& excludes(Option& other);
  Option& needs(Option& other);
  /// Shows the value that the variable holds now as the default.
  Option& show_default();

  bool given() const;
  const OptionText& text() const { return text_; }

 private:
  friend class Command;
  CLI::Option* parser_;
  OptionText text_;
};

/// A command or a subcommand. Names of options are given as "--prompt-file,-f,--file FILE": the first long name is the
/// one that messages use, the word after the space is the placeholder of the value. A name without dashes makes the
/// option an argument with a position. Short names have one letter and are not joined: "-hf" is not "-h -f". Variables
/// must outlive the call of CommandLine::run.
class Command {
 public:
  Command(CLI::App& parser, std::string path, std::string help);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& subcommand(const std::string& name, const std::string& help);
  /// Heading of the options that follow.
  void group(const std::string& heading) { group_ = heading; }
  Option& option(const std::string& names, std::string& value, const std::string& help);
  Option& option(const std::string& names, int& value, const std::string& help);
  Option& option(const std::string& names, std::uint64_t& value, const std::string& help);
  Option& option(const std::string& names, ByteCount& value, const std::string& help);
  Option& option(const std::string& names, NumberOrAuto& value, const std::string& help);
  Option& option(const std::string& names, RealOrAuto& value, const std::string& help);
  Option& option(const std::string& names, float& value, const std::string& help);
  Option& option(const std::string& names, double& value, const std::string& help);
  Option& option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help);
  Option& option(const std::string& names, std::vector<std::string>& value, const std::string& help);
  Option& option(const std::string& names, std::vector<int>& value, const std::string& help);
  Option& flag(const std::string& names, bool& value, const std::string& help);
  /// What runs when this command is chosen. A command without an action needs a subcommand.
  void action(std::function<Exit()> run) { action_ = std::move(run); }

  const std::string& path() const { return path_; }  // "draftproof bench decode"
  std::string name() const;                          // "decode"
  const std::string& help() const { return help_; }
  const std::deque<Option>& options() const { return options_; }
  /// Whether the option with this name, "--draft", was given.
  bool given(const std::string& name) const;
  const std::vector<std::unique_ptr<Command>>& subcommands() const { return subcommands_; }

 private:
  friend class CommandLine;
  using Texts = std::vector<std::string>;

  /// `read` sets the variable from the texts that were given; false when they are no value of its type.
  Option& add(const std::string& names, const char* type, std::function<bool(const Texts&)> read,
              std::function<std::string()> shown, const std::string& help);

  CLI::App* parser_;
  std::string path_;
  std::string help_;
  std::string group_;
  std::deque<Option> options_;  // references stay valid
  std::vector<std::unique_ptr<Command>> subcommands_;
  std::function<Exit()> action_;
};

class CommandLine {
 public:
  /// `version`: what --version prints.
  CommandLine(const std::string& name, const std::string& help, std::function<std::string()> version);
  ~CommandLine();

  Command& root() { return *root_; }

  /// Runs the action of the chosen command, or prints help or the version; `help COMMAND` is `COMMAND --help`, and
  /// without any word it lists the commands on standard error. Throws Error when the words are not a command; the
  /// message names the option, suggests the nearest name for a misspelled one, and ends with what to do.
  Exit run(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> parser_;
  std::unique_ptr<Command> root_;
  std::function<std::string()> version_;
};

}  // namespace draftproof
