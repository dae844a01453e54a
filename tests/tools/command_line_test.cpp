// SPDX-License-Identifier: MIT
// What the definitions of the command line give: aliases, suggestions, --version, completions and the man page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tools/command.h"
#include "tools/suggestion.h"

namespace draftproof::test::command_line_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::string target = fixture("models/tale-target");

TEST(Nearest, FindsTheNameWithTheFewestEdits) {
  const Words names{"--temperature", "--temp", "--top-k", "--top-p", "--kv"};
  EXPECT_EQ(nearest("--temprature", names), "--temperature") << "a missing character";
  EXPECT_EQ(nearest("--tmep", names), "--temp") << "two swapped characters";
  EXPECT_EQ(nearest("--top_k", names), "--top-k");
  EXPECT_EQ(nearest("--quantize", names), "");
  EXPECT_EQ(nearest("--kernel", {"--kv"}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), names), "");
}

TEST(CommandLine, SuggestsTheNearestOptionOrCommand) {
  struct Case {
    Words words;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {{"generate", "--temprature", "0.5", target}, "unknown option --temprature; did you mean --temperature?"},
           {{"generate", target, "--max-new-toke=3"}, "unknown option --max-new-toke; did you mean --max-new-tokens?"},
           {{"verify", target, "--no-such-flag"}, "unknown option --no-such-flag; see draftproof verify --help"},
           {{"genrate", target}, "unknown command 'genrate'; did you mean generate?"},
           {{"bench", "decoed"}, "unknown command 'decoed'; did you mean decode?"},
           {{"nonsense"}, "unknown command 'nonsense'; see draftproof --help"},
           {{"inspect", "a", "b"}, "unexpected argument 'b'; see draftproof inspect --help"},
           {{"bench"},
            "draftproof bench needs a subcommand: batch, decode, drafters, kernels, prefill, prefix, quantization, "
            "sampling, tokenizer"},
           {{"generate", "--prompt", "a"}, "TARGET is missing; give it as an argument or as -m or --model"},
           {{"verify", target}, "--draft or --endpoint is required; see draftproof verify --help"},
           {{"verify", target, "--draft"}, "--draft needs a value"},
           {{"generate", target, "-np", "4"}, "unknown option -np; see draftproof generate --help"},
           {{"generate", target, "-cnv"}, "unknown option -cnv; draftproof chat holds conversations"},
           {{"generate", target, "--draft-min", "2"}, "unknown option --draft-min; rounds have as many draft tokens"},
           {{"inspect", target, "-ngl", "9"}, "unknown option -ngl"},
           {{"generate", "nobody/nothing-0.6B", "-p", "a"},
            "nobody/nothing-0.6B: no such folder or file, and not in the cache of Hugging Face; get it with: "
            "draftproof "
            "fetch nobody/nothing-0.6B (or: hf download nobody/nothing-0.6B)"},
           {{"generate", target, "-p", "a", "--draft", "draft:x/y"}, "x/y: no such folder or file"},
           {{"generate", target, "-p", "a", "--draft", "draft-dflash"},
            "draft 'draft-dflash' is not known, neither as a kind nor as a folder or file; there are none, "
            "dflash:PATH"},
           {{"generate", target, "-p", "a", "--repeat-penalty", "0"}, "--repeat-penalty: '0' is not above 0"},
           {{"generate", target, "--kv", "q5"}, "--kv: 'q5' is none of f32, bf16, q8"}}) {
    const Outcome outcome = run_command(c.words);
    EXPECT_EQ(outcome.status, 3) << c.message;
    EXPECT_THAT(outcome.err, testing::StartsWith(std::string("draftproof: ") + c.message));
  }
}

TEST(CommandLine, AcceptsWhatOtherProgramsCallDrafts) {
  const auto told = [](const std::string& option, const std::string& draft) {
    return run_command({"generate", target, "-p", "Once upon", "-n", "8", "--threads", "1", "--seed", "3", "--rule",
                        "rejection", "--temperature", "1", option, draft});
  };
  const Outcome usual = told("--draft", "ngram-simple?n=1");
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_EQ(told("--spec-type", "ngram_simple?n=1").out, usual.out);
  EXPECT_EQ(told("--draft", "draft-dflash:" + fixture("models/tale-dflash")).out,
            told("--draft", "dflash:" + fixture("models/tale-dflash")).out);
}

TEST(CommandLine, AcceptsShortNamesForOptionsAndForTheTarget) {
  const Outcome usual = run_command(
      {"generate", target, "--prompt", "Once upon", "--max-new-tokens", "8", "--threads", "1", "--temperature", "0.7"});
  const Outcome brief =
      run_command({"generate", "-p", "Once upon", "-n", "8", "-t", "1", "--temp", "0.7", "-m", target});
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_EQ(brief.status, 0) << brief.err;
  EXPECT_EQ(brief.out, usual.out);
  EXPECT_EQ(run_command({"generate", "-p", "Once upon", "-n8", "-t1", "--temp", "0.7", "-m", target}).out, usual.out);
  const Outcome dashes = run_command({"generate", target, "-p", "-hf is a name", "-n", "1"});
  EXPECT_THAT(dashes.out, testing::StartsWith("-hf is a name")) << "what follows an option is its value";
}

TEST(CommandLine, ListsTheCommandsWhenNoneIsNamedAndForHelp) {
  const Outcome help = run_command({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("generate"), HasSubstr("verify"), HasSubstr("serve")));
  const Outcome asked = run_command({"help"});
  EXPECT_EQ(asked.status, 0);
  EXPECT_EQ(asked.out, help.out);
  EXPECT_EQ(run_command({"help", "bench", "decode"}).out, run_command({"bench", "decode", "--help"}).out);
  EXPECT_EQ(run_command({"help", "genrate"}).status, 3);
  const Outcome nothing = run_command({});
  EXPECT_EQ(nothing.status, 3);
  EXPECT_EQ(nothing.err, help.out + "\ndraftproof: draftproof needs a command, one of those above\n");
}

TEST(CommandLine, ChoosesTheNumberOfThreadsForTextsOnly) {
  const Words words{"generate", target, "-p", "Once upon", "-n", "8", "--stats"};
  Words automatic = words;
  automatic.insert(automatic.end(), {"--threads", "auto"});
  const Outcome usual = run_command(words);
  const Outcome chosen = run_command(automatic);
  EXPECT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_EQ(chosen.out, usual.out);
  EXPECT_THAT(chosen.err, testing::ContainsRegex("tokens/s with [0-9]+ thread"));
  for (const Words& refused : {Words{"verify", target, "--draft", "suffix", "--threads", "auto"},
                               Words{"bench", "drafters", target, "--draft", "suffix", "--threads", "auto"}}) {
    const Outcome outcome = run_command(refused);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, testing::HasSubstr("--threads auto depends on measured times"));
  }
}

TEST(CommandLine, ReadsThePromptFromAFileOrStandardInput) {
  const Folder folder;
  const std::string file = folder.path() / "prompt";
  put(file, "Once upon");
  const Words words{"generate", target, "-n", "8"};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Outcome usual = run_command(with({"-p", "Once upon"}));
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_EQ(run_command(with({"-f", file})).out, usual.out);
  EXPECT_EQ(run_command(with({"--file", "-"}), "", "<" + quoted(file)).out, usual.out);
  EXPECT_EQ(run_command(with({"-f", "-"}), "cat " + quoted(file) + " |", "").out, usual.out);
  EXPECT_EQ(run_command(words, "cat " + quoted(file) + " |", "").out, usual.out);
  EXPECT_EQ(run_command(with({"-p", "Once upon"}), "yes |", "").out, usual.out) << "an option goes before the pipe";
  const std::string lines = folder.path() / "lines";
  put(lines, "Once upon\n");
  EXPECT_EQ(run_command(with({"-f", lines})).out, usual.out) << "one newline at the end is none of the prompt";
  EXPECT_EQ(run_command(words, "echo Once upon |", "").out, usual.out);
  put(lines, "Once upon\n\n");
  EXPECT_THAT(run_command(with({"-f", lines})).out, testing::StartsWith("Once upon\n"));
  const Outcome nothing = run_command(words);
  EXPECT_EQ(nothing.status, 3);
  EXPECT_THAT(nothing.err, HasSubstr("there is no prompt"));
}

TEST(CommandLine, PrintsVersionCommitAndKernels) {
  const Outcome outcome = run_command({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, MatchesRegex("draftproof 0.1.0\ncommit (unknown|[0-9a-f]+(-dirty)?)\n"
                                        "kernels [a-z0-9]+ \\(numerics [a-z]+\\)\n"));
  const json inspected = json::parse(run_command({"inspect", "--json"}).out, nullptr, false);
  for (const json& table : inspected["kernels"]) {
    if (!table["default"]) continue;
    EXPECT_THAT(outcome.out, HasSubstr("kernels " + table["name"].get<std::string>() + " "));
  }
}

struct CommandHelp {
  Words words;
  std::string text;
};

/// The help of the command and of all subcommands below it.
std::vector<CommandHelp> all_help(const Words& words = {}) {
  Words asked = words;
  asked.push_back("--help");
  const Outcome outcome = run_command(asked);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<CommandHelp> list{{words, outcome.out}};
  std::istringstream lines(outcome.out);
  bool in_commands = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line == "Commands:") in_commands = line == "Commands:";
    std::smatch match;
    if (!in_commands || !std::regex_match(line, match, std::regex("  ([a-z]+) .*"))) continue;
    Words below = words;
    below.push_back(match[1]);
    for (const CommandHelp& help : all_help(below)) list.push_back(help);
  }
  return list;
}

std::set<std::string> flags_in(const std::string& text) {
  std::set<std::string> flags;
  const std::regex flag("(^|[\\s,])(--?[a-z][a-z-]*)");
  for (std::sregex_iterator at(text.begin(), text.end(), flag), end; at != end; ++at) flags.insert((*at)[2]);
  return flags;
}

TEST(CommandLine, HelpOfEveryCommandNamesTheGlossaryAndFitsTheTerminal) {
  const std::vector<CommandHelp> list = all_help();
  EXPECT_GE(list.size(), 25U);
  for (const CommandHelp& help : list) {
    EXPECT_THAT(help.text, HasSubstr("\nUsage: draftproof"));
    EXPECT_THAT(help.text, HasSubstr("docs/glossary.md"));
    std::istringstream lines(help.text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  }
}

TEST(CommandLine, EveryOptionIsInAPage) {
  std::string pages = text_of(std::string(DRAFTPROOF_SOURCE_DIR) + "/README.md");
  for (const auto& page : files::directory_iterator(std::string(DRAFTPROOF_SOURCE_DIR) + "/docs")) {
    if (page.path().extension() == ".md") pages += text_of(page.path());
  }
  const std::set<std::string> named = flags_in(std::regex_replace(pages, std::regex("[`\\[(\"/=]"), " "));
  EXPECT_FALSE(named.contains("--no-such-option"));
  for (const CommandHelp& help : all_help()) {
    for (const std::string& flag : flags_in(help.text)) {
      const bool is_long = flag.starts_with("--");
      EXPECT_TRUE(!is_long || named.contains(flag)) << testing::PrintToString(help.words) << " " << flag;
    }
  }
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Completion, NamesEveryCommandAndOptionAndIsAScriptOfItsShell) {
  const Folder folder;
  const std::vector<CommandHelp> list = all_help();
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Outcome outcome = run_command({"completion", shell});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const CommandHelp& help : list) {
      std::string path = "draftproof";
      for (const std::string& word : help.words) path += " " + word;
      EXPECT_THAT(outcome.out, HasSubstr(path));
      for (const std::string& flag : flags_in(help.text)) {
        const std::string name = shell != "fish"          ? flag
                                 : flag.starts_with("--") ? "-l " + flag.substr(2)
                                                          : "-s " + flag.substr(1);
        EXPECT_THAT(outcome.out, HasSubstr(name)) << shell << ": " << path;
      }
    }
    const std::string file = folder.path() / shell;
    put(file, outcome.out);
    if (!is_installed(shell)) continue;
    EXPECT_EQ(std::system((shell + " -n " + quoted(file)).c_str()), 0) << shell;
  }
  EXPECT_EQ(run_command({"completion", "tcsh"}).status, 3);
}

TEST(Completion, OfBashCompletesCommandsOptionsAndValues) {
  const Folder folder;
  const std::string script = folder.path() / "script";
  put(script, run_command({"completion", "bash"}).out);
  const auto completed = [&](const std::string& words) {
    const std::string out = folder.path() / "out";
    const std::string line = "source " + quoted(script) + "; COMP_WORDS=(" + words +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _draftproof; echo \"${COMPREPLY[*]}\"";
    EXPECT_EQ(std::system(("bash -c " + quoted(line) + " >" + quoted(out)).c_str()), 0);
    return text_of(out);
  };
  EXPECT_EQ(completed("draftproof ge"), "generate\n");
  EXPECT_EQ(completed("draftproof bench pre"), "prefill prefix\n");
  EXPECT_EQ(completed("draftproof bench decode --con"), "--context\n");
  EXPECT_EQ(completed("draftproof generate a --kv ''"), "f32 bf16 q8\n");
  EXPECT_EQ(completed("draftproof generate a --json ''"), "\n") << "files are completed by bash";
}

TEST(ManPage, NamesEveryOptionThatHelpNamesAndIsTroff) {
  const Outcome outcome = run_command({"man"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string plain = std::regex_replace(outcome.out, std::regex("\\\\(f[BIR]|&)|\\\\(?=-)"), "");
  for (const CommandHelp& help : all_help()) {
    std::string path = "draftproof";
    for (const std::string& word : help.words) path += " " + word;
    EXPECT_THAT(plain, HasSubstr(help.words.empty() ? ".SH NAME" : ".SS " + path));
    const std::set<std::string> named = flags_in(plain);
    for (const std::string& flag : flags_in(help.text)) EXPECT_THAT(named, testing::Contains(flag)) << path;
  }
  if (!is_installed("groff")) GTEST_SKIP() << "groff is not installed";
  const Folder folder;
  put(folder.path() / "page.1", outcome.out);
  const std::string page = quoted((folder.path() / "page.1").string());
  const std::string said = folder.path() / "said";
  EXPECT_EQ(std::system(("groff -man -ww -Tascii " + page + " 2>" + quoted(said) + " >/dev/null").c_str()), 0);
  EXPECT_EQ(text_of(said), "") << "warnings";
}

}  // namespace
}  // namespace draftproof::test::command_line_test
