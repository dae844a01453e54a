// SPDX-License-Identifier: MIT
// Damages chat templates in an endless loop, and renders those that are still templates: every outcome must be a text
// in UTF-8 or an Error, never a crash, a hang or another exception, and what users wrote must stay theirs. The damage
// is deterministic: a seed reproduces a run.
//
//     fuzz_templates [--seconds N] [--seed N] [FOLDER]
//
// FOLDER is that of the fixtures (fixtures/external/chat-templates).
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "ref/base/utf8.h"
#include "tests/chat/answers.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"

namespace draftproof {
namespace {

/// A hundredth of the usual limit, so that a round takes at most a few milliseconds.
constexpr std::uint64_t work = jinja::Template::work_max / 100;

struct Samples {
  std::vector<std::string> templates;
  std::vector<Chat> chats;
  jinja::Dict variables;
};

Samples samples_in(const std::filesystem::path& folder) {
  Samples samples;
  for (const auto& file : test::template_files(folder)) {
    samples.templates.push_back(Json::read(file).at("template").string());
  }
  const Json pieces = Json::read(folder / "jinja.json");
  const Json answers = pieces.at("answers");
  for (std::size_t i = 0; i < answers.size(); ++i) samples.templates.push_back(answers[i].at("template").string());
  samples.variables = test::dict_in(pieces.at("variables"), true);
  const Json chats = Json::read(folder / "conversations.json");
  for (const std::string& name : chats.fields()) samples.chats.push_back(test::chat_in(chats.at(name)));
  return samples;
}

/// Damage that most often leaves a template: a part of another one takes the place of a part.
void splice(std::string& text, const std::string& other, Numbers& numbers) {
  const auto mark = [&](const std::string& in) {
    const std::size_t at = in.find_first_of("{%|(.[ '", numbers.below(in.size() + 1));
    return at == std::string::npos ? in.size() : at;
  };
  const std::size_t at = mark(text);
  const std::size_t from = mark(other);
  text.replace(at, numbers.below(24), other, from, numbers.below(48));
}

void check(const jinja::MarkedText& text) {
  if (!utf8::is_valid(text.bytes())) throw std::runtime_error("the text is not UTF-8");
  std::size_t end = 0;
  for (const jinja::ByteRange& range : text.user_ranges()) {
    const bool right = range.begin < range.end && range.end <= text.size() && (range.begin > end || end == 0);
    if (!right) throw std::runtime_error("the ranges of users are out of order");
    end = range.end;
  }
}

int fuzz(double seconds, std::uint64_t seed, const std::filesystem::path& folder) {
  const Samples samples = samples_in(folder);
  const auto start = std::chrono::steady_clock::now();
  Numbers numbers(seed);
  std::uint64_t rounds = 0;
  std::uint64_t parsed = 0;
  std::uint64_t rendered = 0;
  double slowest = 0;
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (elapsed() < seconds) {
    std::string source = samples.templates[numbers.below(samples.templates.size())];
    for (std::size_t times = numbers.below(5); times-- > 0;) {
      const std::string& other = samples.templates[numbers.below(samples.templates.size())];
      numbers.below(2) == 0 ? splice(source, other, numbers) : damage(source, other, numbers);
    }
    const double before = elapsed();
    try {
      accepted([&] {
        const jinja::Template made(source, "template");
        ++parsed;
        jinja::Dict variables = samples.variables;
        const Chat& chat = samples.chats[numbers.below(samples.chats.size())];
        variables.set("messages", chat.messages);
        variables.set("tools", chat.tools);
        variables.set("documents", chat.documents);
        variables.set("add_generation_prompt", chat.add_generation_prompt);
        check(made.render(variables, chat.now, work));
        ++rendered;
      });
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", static_cast<unsigned long long>(rounds), error.what(), source.c_str());
      return 1;
    }
    slowest = std::max(slowest, elapsed() - before);
    ++rounds;
  }
  std::printf("%llu damaged templates of %zu samples: %llu parsed, %llu rendered; the slowest took %.0f ms\n",
              static_cast<unsigned long long>(rounds), samples.templates.size(),
              static_cast<unsigned long long>(parsed), static_cast<unsigned long long>(rendered), 1e3 * slowest);
  return rendered > 0 ? 0 : 1;
}

}  // namespace
}  // namespace draftproof

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  const std::filesystem::path folder = options.paths.empty() ? "fixtures/external/chat-templates" : options.paths[0];
  try {
    return draftproof::fuzz(options.seconds, options.seed, folder);
  } catch (const draftproof::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
