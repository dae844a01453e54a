// SPDX-License-Identifier: MIT
// Templates against jinja2's answers, and the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/chat/answers.h"

namespace draftproof::test::jinja_test {
namespace {

using jinja::Dict;
using jinja::MarkedText;
using jinja::Template;
using jinja::Value;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::filesystem::path folder = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/chat-templates";

std::string rendered(const std::string& source, const Dict& variables = {}) {
  return Template(source, "t").render(variables, fixture_time()).bytes();
}

std::string refusal(const std::string& source, const Dict& variables = {}) {
  const Answer answer = answer_of([&] { return rendered(source, variables); });
  EXPECT_FALSE(answer.text) << source << " became " << *answer.text;
  return answer.error;
}

Dict user_text(const std::string& text) {
  Dict variables;
  variables.set("u", MarkedText::of_user(text));
  return variables;
}

/// The text with what users wrote in brackets.
std::string marked(const std::string& source, const std::string& user) {
  const MarkedText text = Template(source, "t").render(user_text(user), fixture_time());
  std::string result = text.bytes();
  for (auto range = text.user_ranges().rbegin(); range != text.user_ranges().rend(); ++range) {
    result.insert(range->end, "]");
    result.insert(range->begin, "[");
  }
  return result;
}

/// Whether our answer is the expected one. What jinja2 renders may be refused, if by name.
enum class Outcome { equal, refused_by_both, not_implemented, wrong };

Outcome compared(const Answer& expected, const Answer& ours) {
  if (expected.text && ours.text) return *expected.text == *ours.text ? Outcome::equal : Outcome::wrong;
  if (!expected.text && !ours.text) return Outcome::refused_by_both;
  const bool named = ours.error.find("not implemented") != std::string::npos;
  return expected.text && named ? Outcome::not_implemented : Outcome::wrong;
}

TEST(Jinja, ComparesAnswers) {
  EXPECT_EQ(compared({"a", ""}, {"a", ""}), Outcome::equal);
  EXPECT_EQ(compared({"a", ""}, {"b", ""}), Outcome::wrong);
  EXPECT_EQ(compared({std::nullopt, "TypeError"}, {"a", ""}), Outcome::wrong);
  EXPECT_EQ(compared({"a", ""}, {std::nullopt, "t: line 1: a str cannot be called"}), Outcome::wrong);
  EXPECT_EQ(compared({"a", ""}, {std::nullopt, "t: line 1: the filter 'x' is not implemented"}),
            Outcome::not_implemented);
}

TEST(Jinja, AnswersAsJinja2) {
  const Json fixture = Json::read(folder / "jinja.json");
  const Json answers = fixture.at("answers");
  Dict variables = dict_in(fixture.at("variables"), true);
  variables.set("messages", Value::list({}));
  variables.set("tools", Value());
  variables.set("documents", Value());
  variables.set("add_generation_prompt", false);
  std::map<Outcome, int> outcomes;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string source = answers[i].at("template").string();
    const Answer expected = expected_in(answers[i]);
    const Answer ours = answer_of([&] { return rendered(source, variables); });
    const Outcome outcome = compared(expected, ours);
    ++outcomes[outcome];
    EXPECT_NE(outcome, Outcome::wrong) << source << "\nexpected " << expected.text.value_or(expected.error)
                                       << "\nours     " << ours.text.value_or(ours.error);
    EXPECT_TRUE(ours.text || ours.error.starts_with("t: line ")) << source << ": " << ours.error;
  }
  EXPECT_GT(outcomes[Outcome::equal], 1430);
  EXPECT_GT(outcomes[Outcome::refused_by_both], 690);
  EXPECT_LE(outcomes[Outcome::not_implemented], 26) << "templates that were rendered are refused now";
}

TEST(Jinja, NamesWhatIsNotImplementedWithItsLine) {
  EXPECT_EQ(refusal("a\n{{ 'x' | pprint }}"), "t: line 2: the filter 'pprint' is not implemented");
  EXPECT_EQ(refusal("\n\n{% if 1 is escaped %}{% endif %}"), "t: line 3: the test 'escaped' is not implemented");
  EXPECT_EQ(refusal("{% include 'x' %}"), "t: line 1: the statement 'include' is not implemented");
  EXPECT_EQ(refusal("{{ lipsum() }}"), "t: line 1: the function 'lipsum' is not implemented");
  EXPECT_EQ(refusal("{{ 'x'.encode() }}"), "t: line 1: the method 'encode' of a str is not implemented");
  EXPECT_EQ(refusal("{{ '%*d' % (1, 2) }}"), "t: line 1: the field %* of a format is not implemented");
}

/// A filter of llama.cpp that templates of DeepSeek use.
TEST(Jinja, ReadsJson) {
  EXPECT_EQ(rendered("{% set x = '{\"a\": [1, 2.5, null, \"b\"]}' | from_json %}{{ x.a[1] }}{{ x.a[3] }}{{ x }}"),
            "2.5b{'a': [1, 2.5, None, 'b']}");
  EXPECT_THAT(refusal("{{ '{' | from_json }}"), HasSubstr("t: line 1: the filter 'from_json': line 1"));
  EXPECT_THAT(refusal("{{ 5 | from_json }}"), HasSubstr("needs a string, not a int"));
  EXPECT_EQ(marked("{{ (u | from_json).a }}<", R"({"a": "x"})"), "[x]<");
}

TEST(Jinja, SaysWhereAndWhy) {
  EXPECT_EQ(refusal("{% for x in [1] %}\n{{ x.y.z }}{% endfor %}"), "t: line 2: 'int' has no attribute 'y'");
  EXPECT_EQ(refusal("{{ raise_exception('no ' ~ 'way') }}"),
            "t: line 1: the template refuses this conversation: no way");
  EXPECT_EQ(refusal("{% if x %}"), "t: line 1: expected {% endif %}, found the end of the template");
  EXPECT_THAT(refusal("\xff"), HasSubstr("t: is not UTF-8"));
  EXPECT_THAT(refusal(std::string(Template::source_bytes_max + 1, 'x')), HasSubstr("longer than 1 MiB"));
}

TEST(Jinja, TakesCommentsAndRawBlocksThatBeginAtTheEndForEmptyOnes) {
  for (const char* const source : {"a{#", "a{#-", "a{#+", "a{% raw %}", "a{% raw -%}\n "}) {
    EXPECT_EQ(rendered(source), "a") << source;
  }
  EXPECT_THAT(refusal("a{# "), HasSubstr("a comment that does not end"));
  EXPECT_THAT(refusal("a{% raw %}x"), HasSubstr("a raw block that does not end"));
}

TEST(Jinja, AWordBehindATestIsItsArgument) {
  EXPECT_EQ(rendered("{% for x in [1, 2] if x is odd %}{{ x }}{% endfor %}"), "1");
  EXPECT_EQ(rendered("{{ 'a' if 2 is even else 'b' }}{{ 2 is odd or 1 is odd and 2 is even }}"), "aTrue");
  for (const char* const source :
       {"{{ 2 is even in [true] }}", "{{ 2 is even not in [true] }}", "{{ 1 if 2 is even if 3 }}"}) {
    EXPECT_THAT(refusal(source), HasSubstr("expected an expression")) << source;
  }
}

TEST(Jinja, ShowsThatTextIsSafeWhereItIsShownInQuotes) {
  EXPECT_EQ(
      rendered("{{ ['a' | safe, 'b'] }}{{ {'k': 'c' | safe} | tojson }}{{ 'd' | safe }}{{ '%r' % ('e' | safe,) }}"),
      "[Markup('a'), 'b']{\"k\": \"c\"}dMarkup('e')");
}

TEST(Jinja, WhatIsMadeOfSafeTextIsSafe) {
  for (const char* const made :
       {"upper()", "strip()", "replace('b', 'c')", "split('b')[0]", "splitlines()[0]", "partition('b')[0]",
        "join(['x', 'y'])", "center(5)", "zfill(4)", "removeprefix('b')", "swapcase()"}) {
    EXPECT_THAT(rendered("{{ [('a b' | safe)." + std::string(made) + "] }}"), StartsWith("[Markup(")) << made;
    EXPECT_THAT(rendered("{{ ['a b'." + std::string(made) + "] }}"), StartsWith("['")) << made;
  }
  EXPECT_EQ(rendered("{{ [('ab' | safe)[0], ('ab' | safe)[1:]] }}"), "[Markup('a'), Markup('b')]");
  EXPECT_EQ(rendered("{{ ('a' | safe).join(['<', '>' | safe, 1]) }}{{ ('ab' | safe).replace('b', '<') }}"),
            "&lt;a>a1a&lt;");
  EXPECT_EQ(rendered("{{ 'a'.join(['<', '>']) }}{{ 'ab'.replace('b', '<') }}{{ ('a' | safe).count('a') }}"), "<a>a<1");
}

TEST(Jinja, SortsBySeveralAttributesAndEqualKeysNeedNoOrder) {
  const std::string pairs = "{% set pairs = [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}, {'a': 0, 'b': 3}] %}";
  EXPECT_EQ(rendered(pairs + "{% for p in pairs | sort(attribute='a,b') %}{{ p.a }}{{ p.b }} {% endfor %}"),
            "03 11 12 ");
  EXPECT_EQ(rendered(pairs + "{% for p in pairs | sort(true, attribute='a') %}{{ p.a }}{{ p.b }} {% endfor %}"),
            "12 11 03 ");
  EXPECT_EQ(rendered("{{ [1, 2] | sort(attribute='x') }}{{ [none, none] | sort }}{{ [{}, {}] | sort }}"),
            "[1, 2][None, None][{}, {}]");
  EXPECT_THAT(refusal("{{ [[missing], [1]] | sort }}"), HasSubstr("undefined"));
  EXPECT_THAT(refusal("{{ [1] | sort(reverse=missing) }}"), HasSubstr("undefined"));
  EXPECT_THAT(refusal("{{ {} | dictsort(reverse='x') }}"), HasSubstr("needs an integer"));
}

TEST(Jinja, ASubscriptOfSeveralValuesIsATuple) {
  EXPECT_EQ(rendered("{{ {(1, 2): 3}[1, 2] }}|{{ {(): 4}[] }}|{{ [1][] }}|{{ 'abc'[1, 2] }}"), "3|4||");
  EXPECT_THAT(refusal("{{ missing[] }}"), HasSubstr("undefined"));
  EXPECT_THAT(refusal("{{ [1][1:2, 3] }}"), HasSubstr("not implemented"));
}

TEST(Jinja, FiltersKeepTextSafeAsThoseOfJinja2Do) {
  for (const char* const filter : {"capitalize", "center(9)", "indent('<')", "last", "lower", "reverse", "string",
                                   "trim", "truncate(4, true, '', 0)", "truncate(99)", "upper", "default('x')"}) {
    EXPECT_THAT(rendered("{{ [('a b\nc' | safe) | " + std::string(filter) + "] }}"), StartsWith("[Markup(")) << filter;
    EXPECT_THAT(rendered("{{ ['a b\nc' | " + std::string(filter) + "] }}"), StartsWith("['")) << filter;
  }
  for (const char* const filter : {"first", "join", "replace('a', 'b')", "title"}) {
    EXPECT_THAT(rendered("{{ [('ab' | safe) | " + std::string(filter) + "] }}"), StartsWith("['")) << filter;
  }
  EXPECT_EQ(rendered("{{ [5 | safe | last, [5] | safe | trim] }}"), "[Markup('5'), Markup('[5]')]");
  EXPECT_EQ(rendered("{{ 'abcdef' | safe | truncate(3, true, '<', 0) }}{{ 'abcdef' | truncate(3, true, '<', 0) }}"),
            "ab&lt;ab<");
}

TEST(Jinja, OnlyInParenthesesTargetsEndWithAComma) {
  EXPECT_EQ(rendered("{% for (x,) in [[1]] %}{{ x }}{% endfor %}{% set (y,) = [2] %}{{ y }}"), "12");
  EXPECT_THAT(refusal("{% for x, in [[1]] %}{{ x }}{% endfor %}"), StartsWith("t: line 1: expected"));
  EXPECT_THAT(refusal("{% set x, = [1] %}"), StartsWith("t: line 1: expected"));
}

TEST(Jinja, FormatsOfPercentSignsMayLeaveOutWhatHasItemsByKeys) {
  EXPECT_EQ(rendered("{{ 'a' % [1] }}{{ 'b' % range(2) }}{{ 'c' % missing }}{{ 'd' % {} }}"), "abcd");
  for (const char* const source : {"{{ 'a' % 1 }}", "{{ 'a' % (1,) }}", "{{ 'a' % 'b' }}", "{{ 'a' % none }}"}) {
    EXPECT_THAT(refusal(source), HasSubstr("fewer fields")) << source;
  }
}

TEST(Jinja, TruncateLeavesShortValuesAsTheyAre) {
  EXPECT_EQ(rendered("{{ missing | truncate(4) }}{{ (missing | truncate(4)) is defined }}"), "False");
  EXPECT_EQ(rendered("{{ ('<' | safe | truncate(4)) + '&' }}"), "<&amp;");
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Jinja, LimitsNesting) {
  for (const std::string& source :
       {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
        "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", "{{ " + repeated("-", 5000) + "1 }}",
        "{{ " + repeated("not ", 5000) + "1 }}", "{{ 1" + repeated(" + 1", 5000) + " }}",
        "{{ x" + repeated(".a", 5000) + " }}", "{{ x" + repeated("|list", 5000) + " }}",
        "{{ " + repeated("1 if 1 else ", 5000) + "1 }}", repeated("{% if 1 %}", 5000),
        repeated("{% for x in y %}", 5000)}) {
    EXPECT_THAT(refusal(source), HasSubstr("nests deeper than 200 levels")) << source.substr(0, 40);
  }
  EXPECT_EQ(rendered("{{ 1 }}" + repeated("{% if 0 %}{% elif 0 %}{% endif %}", 5000)), "1");
}

void expect_too_much_work(const std::string& source) {
  const auto little = [&] { return Template(source, "t").render({}, fixture_time(), Template::work_max / 16).bytes(); };
  EXPECT_THAT(answer_of(little).error, AllOf(StartsWith("t: line "), HasSubstr("does too much work"))) << source;
}

TEST(Jinja, LimitsRecursionValuesAndWork) {
  EXPECT_THAT(refusal("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("nest too deep"));
  EXPECT_THAT(refusal("{% set ns = namespace(l=[]) %}{% for i in range(300) %}{% set ns.l = [ns.l] %}{% endfor %}"),
              HasSubstr("values nest deeper than 256 levels"));
  const std::string endless =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}"
      "{% endfor %}";
  for (const std::string& source :
       {endless, std::string("{{ 'a' * 9999999999 }}"), std::string("{{ [1] * 9999999999 }}"),
        std::string("{{ [] | tojson(indent=9999999999) }}"), std::string("{{ 'a\nb' | indent(9999999999) }}"),
        std::string("{% set ns = namespace(s='a', l=[1]) %}{% for i in range(99) %}"
                    "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
        std::string("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}"
                    "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}")}) {
    expect_too_much_work(source);
  }
  // A namespace may contain itself; nothing follows it around.
  EXPECT_EQ(rendered("{% set ns = namespace(a=1) %}{% set ns.me = ns %}{{ ns.me.me.a }}{{ ns == ns.me }}"), "1True");
}

/// What templates reach in Python from a value, a function or a format: CVE-2024-34359, CVE-2024-56326, CVE-2026-5760.
TEST(Jinja, ReachesNothingBehindItsValues) {
  for (const char* const source :
       {"{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ namespace.__init__ }}", "{{ self.__init__.__globals__ }}", "{{ range.__call__ }}",
        "{{ lipsum.__globals__['os'] }}", "{{ ''|attr('format') }}", "{{ ''|attr('__class__') }}",
        "{{ [''.format]|map('__call__') }}", "{% include '/etc/passwd' %}", "{% import 'os' as os %}",
        "{% extends '/etc/passwd' %}", "{{ open('/etc/passwd') }}", "{{ __import__('os') }}"}) {
    EXPECT_NE(refusal(source), "") << source;
  }
  EXPECT_NE(refusal("{{ '{0.__class__}'.format(1) }}"), "");
  EXPECT_NE(refusal("{{ '{0[__class__]}'.format({}) }}"), "");
}

TEST(Jinja, ChargesCountsBeyond64BitsAndAllThatIsCopiedOrVisited) {
  const std::string text = "{% set s = 'a' * 500000 %}{% for i in range(1000) %}";
  const std::string dict = "{% set d = dict(range(9999) | batch(2, 0)) %}{% for i in range(9999) %}";
  const std::vector<std::string> sources = {
      "{{ 'x' | center(2305843009213693953) }}",
      "{{ 'x'.ljust(2305843009213693953) }}",
      "{{ 'x'.rjust(2305843009213693953) }}",
      "{{ 'x'.zfill(2305843009213693953) }}",
      "{{ [1] | slice(288230376151711744) | list | length }}",
      "{{ [1] | batch(9223372036854775807, 0) | list | length }}",
      "{{ ('{0:s}' * 20000).format('a' * 200000) | length }}",
      "{{ ('{0:.1s}' * 20000).format('a' * 200000) | length }}",
      "{{ range(99999) | list | tojson(separators=('a' * 99999, ':')) | length }}",
      "{{ range(9999) | map(attribute='a' * 99999) | list | length }}",
      "{{ ('a' * 500000).find('a' * 250000 ~ 'b') }}",
      "{{ ('a' * 250000 ~ 'b') in 'a' * 500000 }}",
      "{{ ('a,' * 400000).split(',') | length }}",
      "{{ ('a ' * 400000).split() | length }}",
      "{{ ('a,' * 400000).rsplit(',') | length }}",
      "{{ ('a\n' * 400000).splitlines() | length }}",
      "{% set t = ('b',) * 9999 %}{% for i in range(9999) %}{{ 'a'.startswith(t) }}{% endfor %}",
      "{% set l = range(9999) | map('abs') %}"
      "{% for i in range(9999) %}{% set x = l | first %}{% endfor %}",
      text + "{% set x = s | int %}{% endfor %}",
      text + "{% set x = s | float %}{% endfor %}",
      text + "{% set x = s % () %}{% endfor %}",
      text + "{% set x = 'x' | truncate(500000, end=s) %}{% endfor %}",
      text + "{% set x = 'x'.strip(s) %}{% endfor %}",
      text + "{% set x = 'x' | trim(s) %}{% endfor %}",
      dict + "{% set x = dict(d) %}{% endfor %}",
      dict + "{% set x = d | items %}{% endfor %}",
  };
  for (const std::string& source : sources) expect_too_much_work(source);
}

TEST(Jinja, TakesNumbersAtTheEndsOf64Bits) {
  EXPECT_EQ(rendered("{{ 'x' | truncate(9223372036854775807) }}{{ 'x' | truncate(3, leeway=9223372036854775807) }}"),
            "xx");
  const std::string min = "-9223372036854775807 - 1";
  for (const char* const method : {"ljust", "rjust", "center", "zfill"}) {
    EXPECT_EQ(rendered("{{ '-x'." + std::string(method) + "(" + min + ") }}"), "-x") << method;
  }
  EXPECT_EQ(rendered("{{ 'x' | center(" + min + ") }}{{ 'abc'[" + min + ":9223372036854775807] }}"), "xabc");
}

TEST(Jinja, FormatsAsPython) {
  EXPECT_EQ(rendered("{{ '{:010}{:<03}{:*=5}{:03}'.format('a', 5, 7, -1) }}"), "a000000000500****7-01");
  EXPECT_EQ(refusal("{{ '{:=10}'.format('a') }}"), "t: line 1: such a format does not fit a str");
  EXPECT_THAT(refusal("{{ '%5%' % () }}"), HasSubstr("the field %% of a format has no other parts"));
  EXPECT_EQ(rendered("{{ '100%%' % () }}"), "100%");
  EXPECT_EQ(rendered("{{ '%-05d|%05d|%05.1f' % (7, -7, 7) }}"), "7    |-0007|007.0");
}

/// As jinja2's Markup.
TEST(Jinja, EscapesWhatATextOfTheFilterSafeTakesIn) {
  EXPECT_EQ(rendered("{{ ('<' | safe) * 2 + '<' }}{{ 2 * ('<' | safe) + '<' }}"), "<<&lt;<<&lt;");
  EXPECT_EQ(rendered("{{ ('<%s|%r' | safe) % ('<b>', '<') + '<' }}"), "<&lt;b&gt;|&#39;&lt;&#39;&lt;");
  EXPECT_EQ(rendered("{{ ('<%s%3s' | safe) | format('<b>' | safe, '<') }}"), "<<b>&lt;");
  EXPECT_EQ(rendered("{{ ('<{}{:>3}' | safe).format('<b>' | safe, '<') + '<' }}"), "<<b>  &lt;&lt;");
}

TEST(Jinja, KeepsTheMarksOfUsersThroughEveryOperation) {
  EXPECT_EQ(marked("<{{ u }}>", "a"), "<[a]>");
  EXPECT_EQ(marked("{{ '<' + u + '>' ~ u }}", "a"), "<[a]>[a]");
  EXPECT_EQ(marked("{{ u | trim }}{{ u.strip() | upper }}{{ u.title() }}", " a\u00df "), "[a\u00dfASS A\u00df ]");
  EXPECT_EQ(marked("{{ ('<b>' ~ u) | upper }}", "a"), "<B>[A]");
  EXPECT_EQ(marked("{{ u | replace('b', '<>') }}", "abc"), "[a]<>[c]");
  EXPECT_EQ(marked("{{ 'x-y' | replace('-', u) }}", "abc"), "x[abc]y");
  EXPECT_EQ(marked("{{ u.split(',') | join('<>') }}{{ u[1:3] }}{{ u[::-1] }}", "a,b"), "[a]<>[b,bb,a]");
  EXPECT_EQ(marked("{{ {'k': u} | tojson }}", "a\"\n"), "{\"k\": \"[a\\\"\\n]\"}");
  EXPECT_EQ(marked("{{ [u] }}{{ {u: 1} }}", "a"), "['[a]']{'[a]': 1}");
  EXPECT_EQ(marked("{% set x %}<{{ u }}>{% endset %}{{ x }}", "a"), "<[a]>");
  EXPECT_EQ(marked("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(u) }}", "a"), "([a])");
  EXPECT_EQ(marked("{% for c in u %}{{ c }}-{% endfor %}", "ab"), "[a]-[b]-");
  EXPECT_EQ(marked("{{ u | indent(1) }}{{ u | list | last }}{{ u | reverse }}", "a\nb"), "[a]\n [bbb\na]");
  EXPECT_EQ(marked("{{ u * 2 }}{{ u | default('x') }}{{ u if u else 1 }}{{ [u, 'z'] | sort | first }}", "a"),
            "[aaaaa]");
  EXPECT_EQ(marked("{{ '%s|%3s' % (u, u) }}{{ '<{}>{:>3}'.format(u, u) }}", "a"), "[a]|  [a]<[a]>  [a]");
  EXPECT_EQ(marked("{{ u.center(3, '-') }}{{ u | truncate(1, true, '') }}{{ ('<' | safe) + u }}", "&"),
            "-[&]-[&]<[&amp;]");
  EXPECT_EQ(marked("{% for k, l in [{'r': u}] | groupby('r') %}{{ k }}-{% endfor %}{{ [u] | max }}", "a"), "[a]-[a]");
  EXPECT_EQ(marked("{{ u.partition('<')[2] }}{{ u.removeprefix('a') }}{{ u | string }}", "a<b"), "[b<ba<b]");
}

}  // namespace
}  // namespace draftproof::test::jinja_test
