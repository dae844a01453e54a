// SPDX-License-Identifier: MIT
// Chat templates: those that are still templates are rendered. The text is UTF-8, and what users wrote stays theirs.
#include <stdexcept>
#include <string>
#include <vector>

#include "ref/base/utf8.h"
#include "tests/chat/answers.h"
#include "tests/fuzz/target.h"

namespace draftproof::fuzz::chat_template_target {

/// A hundredth of the usual limit, so that a round takes at most a few milliseconds.
constexpr std::uint64_t work = jinja::Template::work_max / 100;

std::filesystem::path examples() { return fixtures() / "external" / "chat-templates"; }

struct Conversations {
  std::vector<Chat> chats;
  jinja::Dict variables;
};

const Conversations& conversations() {
  static const Conversations all = [] {
    Conversations read;
    read.variables = test::dict_in(Json::read(examples() / "jinja.json").at("variables"), true);
    const Json chats = Json::read(examples() / "conversations.json");
    for (const std::string& name : chats.fields()) read.chats.push_back(test::chat_in(chats.at(name)));
    return read;
  }();
  return all;
}

void require_ranges(const jinja::MarkedText& text) {
  if (!utf8::is_valid(text.bytes())) throw std::runtime_error("the text is not UTF-8");
  std::size_t end = 0;
  for (const jinja::ByteRange& range : text.user_ranges()) {
    const bool right = range.begin < range.end && range.end <= text.size() && (range.begin > end || end == 0);
    if (!right) throw std::runtime_error("the ranges of users are out of order");
    end = range.end;
  }
}

bool run(const std::string& source) {
  return accepted([&] {
    const jinja::Template made(source, "template");
    jinja::Dict variables = conversations().variables;
    const Chat& chat = conversations().chats[source.size() % conversations().chats.size()];
    variables.set("messages", chat.messages);
    variables.set("tools", chat.tools);
    variables.set("documents", chat.documents);
    variables.set("add_generation_prompt", chat.add_generation_prompt);
    require_ranges(made.render(variables, chat.now, work));
  });
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const auto& file : test::template_files(examples())) all.push_back(Json::read(file).at("template").string());
  const Json answers = Json::read(examples() / "jinja.json").at("answers");
  for (std::size_t i = 0; i < answers.size(); ++i) all.push_back(answers[i].at("template").string());
  return all;
}

/// Damage after which it is a template more often: a part of another one takes the place of a part.
void splice(std::string& text, const std::string& other, Numbers& numbers) {
  const auto mark = [&](const std::string& in) {
    const std::size_t at = in.find_first_of("{%|(.[ '", numbers.below(in.size() + 1));
    return at == std::string::npos ? in.size() : at;
  };
  const std::size_t at = mark(text);
  const std::size_t from = mark(other);
  text.replace(at, numbers.below(24), other, from, numbers.below(48));
}

void change(std::string& text, const std::string& other, Numbers& numbers) {
  numbers.below(2) == 0 ? splice(text, other, numbers) : damage(text, other, numbers);
}

}  // namespace draftproof::fuzz::chat_template_target

namespace draftproof::fuzz {

const Target chat_template = {"chat_template", chat_template_target::run, chat_template_target::seeds,
                              chat_template_target::change};

}  // namespace draftproof::fuzz
