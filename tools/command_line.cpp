// SPDX-License-Identifier: MIT
#include "tools/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "tools/command_text.h"
#include "tools/other_flags.h"
#include "tools/suggestion.h"

namespace draftproof {
namespace {

template <class Number>
bool read_integer(const std::string& text, Number& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size();
}

/// Rounds to a long double first, as CLI11 does.
template <class Number>
bool read_real(const std::string& text, Number& value) {
  char* end = nullptr;
  value = static_cast<Number>(std::strtold(text.c_str(), &end));
  return !text.empty() && end == text.c_str() + text.size();
}

/// The units of byte counts, the largest first; the last is the byte itself.
constexpr std::pair<const char*, int> byte_units[] = {{"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"", 0}};

bool read_bytes(const std::string& text, std::uint64_t& value) {
  for (const auto& [unit, shift] : byte_units) {
    if (!text.ends_with(unit)) continue;
    if (!read_integer(text.substr(0, text.size() - std::string_view(unit).size()), value)) return false;
    const std::uint64_t count = value;
    value <<= shift;
    return value >> shift == count;
  }
  return false;
}

std::string text_of_bytes(std::uint64_t value) {
  for (const auto& [unit, shift] : byte_units) {
    if (value >> shift << shift == value) return fmt::format("{}{}", value >> shift, unit);
  }
  return {};
}

template <class Value>
std::string joined(const std::vector<Value>& values, const char* between) {
  return fmt::format("{}", fmt::join(values, between));
}

bool is_flag(const std::string& name) { return name.starts_with("-"); }

/// The first long name of an option, or of an argument its position.
std::string spoken_name(const OptionText& text) {
  const auto name = std::find_if(text.flags.begin(), text.flags.end(),
                                 [](const std::string& flag) { return flag.starts_with("--"); });
  if (!text.position.empty()) return text.position;
  return name == text.flags.end() ? text.flags.front() : *name;
}

std::string missing_message(const OptionText& text) {
  if (text.position.empty()) return spoken_name(text) + " is required";
  if (text.flags.empty()) return text.position + " is missing";
  return fmt::format("{} is missing; give it as an argument or as {}", text.position, joined(text.flags, " or "));
}

}  // namespace

Option& Option::required() {
  text_.required = true;
  parser_->required();
  return *this;
}

template <class Number>
Option& Option::range(Number min, Number max) {
  const char* const kind = std::is_integral_v<Number> ? "whole number" : "number";
  // CLI::Range reads octal numbers, accepts NaN, and reads numbers too large for the type as its largest.
  parser_->check([=](const std::string& text) {
    Number value{};
    const bool read = read_integer(text, value);
    const bool decimal = !std::is_integral_v<Number> || text == fmt::format("{}", value);
    if (read && decimal && value >= min && value <= max) return std::string();
    return fmt::format("{} is not a {} from {} to {}", in_quotes(text), kind, min, max);
  });
  return *this;
}

template Option& Option::range(int, int);
template Option& Option::range(std::int64_t, std::int64_t);
template Option& Option::range(std::uint64_t, std::uint64_t);
template Option& Option::range(double, double);

Option& Option::not_zero() {
  parser_->check([](const std::string& text) {
    double value = 1;
    return std::string(read_real(text, value) && value == 0 ? in_quotes(text) + " is not above 0" : "");
  });
  return *this;
}

Option& Option::choices(std::vector<std::string> texts) {
  text_.choices = std::move(texts);
  parser_->check([all = text_.choices](const std::string& text) {
    if (std::find(all.begin(), all.end(), text) != all.end()) return std::string();
    return fmt::format("{} is none of {}", in_quotes(text), joined(all, ", "));
  });
  return *this;
}

Option& Option::one_each_time() {
  parser_->allow_extra_args(false);
  return *this;
}

Option& Option::count(int min, int max) {
  parser_->expected(min, max);
  return *this;
}

Option& Option::separator(char between) {
  parser_->delimiter(between);
  return *this;
}

Option& Option::excludes(Option& other) {
  parser_->excludes(other.parser_);
  return *this;
}

Option& Option::needs(Option& other) {
  parser_->needs(other.parser_);
  return *this;
}

Option& Option::show_default() {
  parser_->capture_default_str();
  text_.initial = parser_->get_default_str();
  return *this;
}

bool Option::given() const { return parser_->count() > 0; }

bool Command::given(const std::string& name) const {
  return std::ranges::any_of(options_, [&](const Option& option) {
    return option.given() && std::ranges::find(option.text().flags, name) != option.text().flags.end();
  });
}

Command::Command(CLI::App& parser, std::string path, std::string help)
    : parser_(&parser), path_(std::move(path)), help_(std::move(help)) {}

std::string Command::name() const { return path_.substr(path_.rfind(' ') + 1); }

Command& Command::subcommand(const std::string& name, const std::string& help) {
  parser_->require_subcommand(1);
  subcommands_.push_back(std::make_unique<Command>(*parser_->add_subcommand(name, help), path_ + " " + name, help));
  return *subcommands_.back();
}

Option& Command::add(const std::string& names, const char* type, std::function<bool(const Texts&)> read,
                     std::function<std::string()> shown, const std::string& help) {
  const std::size_t space = names.find(' ');
  CLI::Option* const parser = parser_->add_option(names.substr(0, space), read, help, false, shown);
  // An empty value never means anything: a script's variable that was never set must not pass for an absent option.
  parser->check(
      [](const std::string& value) { return std::string(value.empty() ? "is empty; give it, or leave it out" : ""); });
  OptionText text{.position = parser->get_name(true), .value = type, .help = help, .group = group_};
  if (space != std::string::npos) text.value = names.substr(space + 1);
  for (char& c : text.position) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string& name : CLI::detail::split(names.substr(0, space), ',')) {
    if (is_flag(name)) text.flags.push_back(name);
  }
  parser->type_name(text.value);
  return options_.emplace_back(*parser, std::move(text));
}

Option& Command::option(const std::string& names, std::string& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return value = texts.at(0), true; };
  return add(
      names, "TEXT", read, [&value] { return value; }, help);
}

Option& Command::option(const std::string& names, int& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_integer(texts.at(0), value); };
  return add(
      names, "N", read, [&value] { return fmt::format("{}", value); }, help);
}

Option& Command::option(const std::string& names, std::uint64_t& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_integer(texts.at(0), value); };
  return add(
      names, "N", read, [&value] { return fmt::format("{}", value); }, help);
}

Option& Command::option(const std::string& names, ByteCount& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_bytes(texts.at(0), value.bytes); };
  Option& option = add(
      names, "SIZE", read, [&value] { return text_of_bytes(value.bytes); }, help);
  option.parser_->check([](const std::string& text) {
    std::uint64_t ignored = 0;
    if (read_bytes(text, ignored)) return std::string();
    return in_quotes(text) + " is not a number of bytes like 4GiB, 512MiB or 100000";
  });
  return option;
}

Option& Command::option(const std::string& names, NumberOrAuto& value, const std::string& help) {
  const auto read_number = [max = value.max](const std::string& text, int& number) {
    if (text == "auto") number = NumberOrAuto::automatic;
    return text == "auto" ||
           (read_integer(text, number) && text == fmt::format("{}", number) && number >= 1 && number <= max);
  };
  const auto read = [&value, read_number](const Texts& texts) { return read_number(texts.at(0), value.number); };
  const auto shown = [&value] {
    return value.number == NumberOrAuto::automatic ? std::string("auto") : fmt::format("{}", value.number);
  };
  Option& option = add(names, "N|auto", read, shown, help);
  option.parser_->check([read_number, max = value.max](const std::string& text) {
    int ignored = 0;
    if (read_number(text, ignored)) return std::string();
    return fmt::format("{} is not a whole number from 1 to {}, nor the word auto", in_quotes(text), max);
  });
  return option;
}

Option& Command::option(const std::string& names, RealOrAuto& value, const std::string& help) {
  const auto read_number = [max = value.max](const std::string& text, double& number) {
    return text == "auto" || (read_real(text, number) && number >= 0 && number <= max);
  };
  const auto read = [&value, read_number](const Texts& texts) {
    value.automatic = texts.at(0) == "auto";
    return read_number(texts.at(0), value.number);
  };
  const auto shown = [&value] { return value.automatic ? std::string("auto") : fmt::format("{:g}", value.number); };
  Option& option = add(names, "X|auto", read, shown, help);
  option.parser_->check([read_number, max = value.max](const std::string& text) {
    double ignored = 0;
    if (read_number(text, ignored)) return std::string();
    return fmt::format("{} is not a number from 0 to {:g}, nor the word auto", in_quotes(text), max);
  });
  return option;
}

Option& Command::option(const std::string& names, float& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_real(texts.at(0), value); };
  return add(
      names, "X", read, [&value] { return fmt::format("{:g}", value); }, help);
}

Option& Command::option(const std::string& names, double& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_real(texts.at(0), value); };
  return add(
      names, "X", read, [&value] { return fmt::format("{:g}", value); }, help);
}

Option& Command::option(const std::string& names, std::optional<std::int64_t>& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return read_integer(texts.at(0), value.emplace()); };
  return add(
      names, "N", read, [] { return std::string(); }, help);
}

Option& Command::option(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) { return value = texts, true; };
  Option& option = add(
      names, "TEXT", read, [&value] { return joined(value, ","); }, help);
  option.text_.list = true;
  option.parser_->expected(CLI::detail::expected_max_vector_size);
  return option;
}

Option& Command::option(const std::string& names, std::vector<int>& value, const std::string& help) {
  const auto read = [&value](const Texts& texts) {
    value.clear();
    return std::all_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return read_integer(text, value.emplace_back()); });
  };
  Option& option = add(
      names, "N", read, [&value] { return joined(value, ","); }, help);
  option.text_.list = true;
  option.parser_->expected(CLI::detail::expected_max_vector_size);
  return option;
}

Option& Command::flag(const std::string& names, bool& value, const std::string& help) {
  CLI::Option* const parser = parser_->add_flag(names, value, help);
  return options_.emplace_back(*parser,
                               OptionText{.flags = CLI::detail::split(names, ','), .help = help, .group = group_});
}

CommandLine::CommandLine(const std::string& name, const std::string& help, std::function<std::string()> version)
    : parser_(std::make_unique<CLI::App>(help, name)),
      root_(std::make_unique<Command>(*parser_, name, help)),
      version_(std::move(version)) {
  parser_->set_version_flag("--version", "");  // run() prints it
}

CommandLine::~CommandLine() = default;

namespace {

std::string misspelled(const Command& command, const std::string& word) {
  std::vector<std::string> known{"--help"};
  for (const Option& option : command.options()) {
    for (const std::string& flag : option.text().flags) known.push_back(flag);
  }
  const std::string name = word.substr(0, word.find('='));
  if (const std::string_view instead = instead_of(name); !instead.empty()) {
    return "unknown option " + name + "; " + std::string(instead);
  }
  const std::string suggestion = name.starts_with("--") ? nearest(name, known) : "";
  return "unknown option " + name + (suggestion.empty() ? "" : "; did you mean " + suggestion + "?");
}

std::vector<std::string> names_of_subcommands(const Command& command) {
  std::vector<std::string> names;
  for (const auto& subcommand : command.subcommands()) names.push_back(subcommand->name());
  return names;
}

std::string unknown_subcommand(const Command& command, const std::string& word) {
  const std::string suggestion = nearest(word, names_of_subcommands(command));
  return "unknown command " + in_quotes(word) + (suggestion.empty() ? "" : "; did you mean " + suggestion + "?");
}

std::string with_help_hint(const Command& command, const std::string& what) {
  return what.ends_with("?") ? what : what + "; see " + command.path() + " --help";
}

/// "-n5" is "-n 5", but no other word after one dash is more than one letter: CLI11 would take "-ngl" for "-n gl".
bool is_joined(const Command& command, const std::string& word) {
  const auto is = [&](std::size_t at, int (*kind)(int)) { return kind(static_cast<unsigned char>(word[at])) != 0; };
  if (word.size() < 3 || word[0] != '-' || !is(1, std::isalpha)) return false;
  const auto has_flag = [&](const Option& option) {
    return std::ranges::count(option.text().flags, word.substr(0, 2)) > 0;
  };
  return !(is(2, std::isdigit) && std::ranges::any_of(command.options(), has_flag));
}

/// Throws Error for the first word that joins short options.
void refuse_joined(const Command& root, const std::vector<std::string>& words) {
  const Command* command = &root;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (is_joined(*command, word)) throw Error(with_help_hint(*command, misspelled(*command, word)));
    for (const auto& subcommand : command->subcommands()) {
      if (subcommand->name() != word) continue;
      command = subcommand.get();
      break;
    }
    const auto takes_next = [&](const Option& option) {
      return !option.text().value.empty() && std::ranges::count(option.text().flags, word) > 0;
    };
    if (std::ranges::any_of(command->options(), takes_next)) ++i;  // whatever the value is
  }
}

/// `left`: the words that no definition took.
std::string explained(const Command& command, const std::vector<std::string>& left, const CLI::ParseError& wrong) {
  for (const std::string& word : left) {
    if (is_flag(word) && word != "--") return misspelled(command, word);
  }
  for (const std::string& word : left) {
    if (word == "--") continue;
    return command.subcommands().empty() ? "unexpected argument " + in_quotes(word) : unknown_subcommand(command, word);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr) {
    if (!command.subcommands().empty()) {
      return command.path() + " needs a subcommand: " + joined(names_of_subcommands(command), ", ");
    }
    for (const Option& option : command.options()) {
      if (option.text().required && !option.given()) return missing_message(option.text());
    }
  }
  const std::string message = wrong.what();
  const std::size_t required = message.find(": 1 required");
  return required != std::string::npos ? message.substr(0, required) + " needs a value" : message;
}

}  // namespace

Exit CommandLine::run(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) {
    fmt::print(stderr, "{}\n", help_text(*root_));
    throw Error(root_->path() + " needs a command, one of those above");
  }
  if (words[0] == "help") {
    const Command* command = root_.get();
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto& below = command->subcommands_;
      const auto found = std::ranges::find_if(below, [&](const auto& one) { return one->name() == words[i]; });
      if (found == below.end()) throw Error(with_help_hint(*command, unknown_subcommand(*command, words[i])));
      command = found->get();
    }
    fmt::print("{}", help_text(*command));
    return Exit::pass;
  }
  for (const auto& subcommand : root_->subcommands()) {
    const bool decodes = std::ranges::count(std::array{"generate", "chat", "run", "serve", "verify"}, words[0]) > 0;
    if (subcommand->name() != words[0] || !decodes) continue;
    for (const std::string& note : translate_flags(*subcommand, words)) fmt::print(stderr, "draftproof: {}\n", note);
  }
  refuse_joined(*root_, words);
  const auto chosen = [this] {
    Command* command = root_.get();
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (const auto& subcommand : command->subcommands_) {
        if (!subcommand->parser_->parsed()) continue;
        command = subcommand.get();
        deeper = true;
        break;
      }
    }
    return command;
  };
  try {
    std::ranges::reverse(words);  // CLI11 takes them from the end
    parser_->parse(std::move(words));
  } catch (const CLI::CallForVersion&) {
    fmt::print("{}", version_());
    return Exit::pass;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_text(*chosen()));
    return Exit::pass;
  } catch (const CLI::ParseError& wrong) {
    const Command& command = *chosen();
    throw Error(with_help_hint(command, explained(command, command.parser_->remaining(), wrong)));
  }
  return chosen()->action_();
}

}  // namespace draftproof
