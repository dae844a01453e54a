// SPDX-License-Identifier: MIT
// The page in a browser, before the real server: it compares a plain and a speculative answer, and sees when they
// differ. A server in front of the real one adds a picture that takes until the answers have come, because the browser
// prints the page once it is loaded; and it can change an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "serve/page.h"
#include "tests/serve/running_server.h"

namespace draftproof::serve::page_test {
namespace {

using testing::HasSubstr;

class FrontServer {
 public:
  /// `answers`: that the page asks for. `change`: what becomes of the second of them. `script`: runs behind the page's.
  /// `models`: what it says it has; empty: what is behind it.
  FrontServer(const RunningServer& behind, int answers, std::function<std::string(std::string)> change,
              const std::string& script = "", const std::string& models = "")
      : answers_(answers) {
    http_.Get("/", [script](const httplib::Request&, httplib::Response& response) {
      std::string html(page());
      const auto replace = [&](const std::string& what, const std::string& with) {
        const std::size_t at = html.find(what);
        ASSERT_NE(at, std::string::npos);
        html.replace(at, what.size(), with);
      };
      replace("connect-src 'self'", "connect-src 'self'; img-src 'self'");
      replace("</html>", "<script>" + script + "</script><img src=\"/wait\" alt=\"\"></html>");
      response.set_content(html, "text/html; charset=utf-8");
    });
    http_.Get("/wait", [this](const httplib::Request&, httplib::Response& response) {
      for (int i = 0; i < 300 && told_ < answers_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      response.status = 404;
    });
    http_.Get("/v1/models", [&behind, models](const httplib::Request&, httplib::Response& response) {
      response.set_content(models.empty() ? behind.client().Get("/v1/models")->body : models, "application/json");
    });
    http_.Post("/v1/chat/completions",
               [this, &behind, change](const httplib::Request& request, httplib::Response& response) {
                 const auto answer = behind.client().Post(request.path, request.body, "application/json");
                 std::string body = answer->body;
                 response.status = answer->status;
                 if (++told_ == 2 && change) body = change(std::move(body));
                 response.set_content(body, "text/event-stream");
               });
    port_ = http_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { http_.listen_after_bind(); });
  }
  ~FrontServer() {
    http_.stop();
    thread_.join();
  }

  /// The page once it has loaded, with what its script has made of it.
  std::string shown(const std::string& hash) const {
    const std::string command =
        "chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --dump-dom "
        "'http://127.0.0.1:" +
        std::to_string(port_) + "/#" + hash + "' 2>/dev/null";
    std::string page;
    FILE* const pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) page.append(buffer.data(), size);
    pclose(pipe);
    return page;
  }

 private:
  int answers_;
  httplib::Server http_;
  std::atomic<int> told_{0};
  int port_ = 0;
  std::thread thread_;
};

bool has_chromium() {
  const bool found = std::system("command -v chromium >/dev/null 2>&1") == 0;
  EXPECT_TRUE(found) << "chromium is missing; install the Debian package chromium, or run `make test-slow`, which does";
  return found;
}

TEST(PageSlow, ComparesAPlainAndASpeculativeAnswer) {
  if (!has_chromium()) return;
  const RunningServer server;
  EXPECT_THAT(FrontServer(server, 2, {}).shown("compare-run"), HasSubstr("class=\"equal\">equal, bit for bit: "));
}

TEST(PageSlow, SeesATokenALogprobAndAnEndThatDiffer) {
  if (!has_chromium()) return;
  const RunningServer server;
  const auto replaced = [](std::string what, std::string with) {
    return [=](std::string body) {
      const std::size_t at = body.find(what, body.size() / 2);
      EXPECT_NE(at, std::string::npos) << what;
      return at == std::string::npos ? body : body.replace(at, what.size(), with);
    };
  };
  EXPECT_THAT(FrontServer(server, 2, replaced("\"tokens\":[{\"id\":", "\"tokens\":[{\"id\":9")).shown("compare-run"),
              HasSubstr("class=\"different\">token "));
  EXPECT_THAT(FrontServer(server, 2, replaced("\"logprob\":-", "\"logprob\":-1")).shown("compare-run"),
              HasSubstr("class=\"different\">the logprobs of token "));
  EXPECT_THAT(FrontServer(server, 2, replaced("data: [DONE]", "")).shown("compare-run"),
              HasSubstr("not compared: a run has not come to its end"));
}

TEST(PageSlow, ShowsWhatIsThoughtBeforeTheAnswer) {
  if (!has_chromium()) return;
  const RunningServer server({.chat_template = "{{ messages[0].content }}<think>\n{# ends with </think> #}"});
  const std::string shown = FrontServer(server, 1, {}).shown("ask=A tale");
  EXPECT_THAT(shown, HasSubstr("<details class=\"thoughts\" open=\"\"><summary class=\"soft\">Thoughts</summary>"));
}

TEST(PageSlow, OffersToolsShowsTheirCallsAndGoesOnWithWhatTheyReturn) {
  if (!has_chromium()) return;
  const RunningServer server;
  const std::string script = R"(
      $("tools").value = '[{"type": "function", "function": {"name": "now"}}]';
      $("tool_choice").value = "one";
      new MutationObserver(() => {
        const form = document.querySelector(".answers");
        if (!form) return;
        form.querySelector("textarea").value = "12:00 <b>";
        form.requestSubmit();
      }).observe($("chat"), {childList: true, subtree: true});)";
  const std::string shown = FrontServer(server, 2, {}, script).shown("ask=When?");
  EXPECT_THAT(shown, HasSubstr("<div class=\"call\"><p class=\"who\">Calls now</p><pre>{}</pre></div>"));
  EXPECT_THAT(shown,
              HasSubstr("now returns</p><div class=\"text\">12:00 &lt;b&gt;</div></div><div class=\"message\">"));
  EXPECT_THAT(shown, testing::Not(HasSubstr("class=\"error\"")));
}

TEST(PageSlow, SendsItsSettingsAndSaysWhatIsWrongWithThem) {
  if (!has_chromium()) return;
  const RunningServer server;
  const auto shown = [&](const std::string& field, const std::string& value, int answers) {
    return FrontServer(server, answers, {}, "$('" + field + "').value = '" + value + "';").shown("ask=A tale");
  };
  const auto error = [](const std::string& what) { return HasSubstr("<p class=\"error\" role=\"alert\">" + what); };
  EXPECT_THAT(shown("samplers", "top_k;no_such", 1), HasSubstr("there is no sampler no_such"));
  EXPECT_THAT(shown("min_p", "2", 1), HasSubstr("field min_p: "));
  EXPECT_THAT(shown("tools", "{", 0), error("the definitions of the tools are no JSON list"));
}

TEST(PageSlow, LetsTheUserChooseAmongModels) {
  if (!has_chromium()) return;
  const RunningServer server;
  const std::string models = R"({"data": [{"id": "one", "draft": "none"}, {"id": "two", "draft": "d"}]})";
  const std::string script = R"(
      new MutationObserver(() => {
        if ($("models").length < 2 || $("models").selectedIndex === 1) return;
        $("models").selectedIndex = 1;
        $("models").dispatchEvent(new Event("change"));
      }).observe($("model"), {childList: true});)";
  const std::string shown = FrontServer(server, 1, {}, script, models).shown("ask=A tale");
  EXPECT_THAT(shown, HasSubstr("id=\"model\">two, drafted by d</p>"));
  EXPECT_THAT(shown, HasSubstr("<label id=\"models-label\">Model "));
}

TEST(PageSlow, EveryFieldAndButtonHasAName) {
  if (!has_chromium()) return;
  const RunningServer server;
  const std::string script = R"(
      const named = (one) => one.textContent || one.ariaLabel || (one.labels || []).length;
      const all = [...document.querySelectorAll("input, textarea, select, button")];
      document.body.dataset.fields = all.length;
      document.body.dataset.nameless = all.filter((one) => !named(one)).map((one) => one.id).join(" ");)";
  const std::string shown = FrontServer(server, 0, {}, script).shown("");
  EXPECT_THAT(shown, HasSubstr("data-fields=\"2"));
  EXPECT_THAT(shown, HasSubstr("data-nameless=\"\""));
}

TEST(PageSlow, ShowsWhichTokensWereDraftedAndWritesTextAsText) {
  if (!has_chromium()) return;
  const RunningServer server;
  const std::string shown = FrontServer(server, 1, {}).shown("tokens,ask=%3Cimg src=x onerror=alert(1)%3E tell me");
  EXPECT_THAT(shown, HasSubstr("&lt;img src=x onerror=alert(1)&gt; tell me"));
  EXPECT_THAT(shown, HasSubstr("<span class=\"accepted\" title=\"token "));
  EXPECT_THAT(shown, HasSubstr("<span class=\"own\" title=\"token "));
  EXPECT_THAT(shown, HasSubstr(" tokens a round, draft tokens accepted: "));
}

}  // namespace
}  // namespace draftproof::serve::page_test
