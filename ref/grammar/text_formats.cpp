// SPDX-License-Identifier: MIT
#include "ref/grammar/text_formats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ref/grammar/regular_expression.h"

namespace draftproof {
namespace {

std::string any_of(const std::vector<std::string>& expressions) {
  std::string all;
  for (const std::string& one : expressions) all += (all.empty() ? "(?:" : "|") + one;
  return all + ")";
}

// RFC 3339. Leap seconds and the year 0000 are left out.
const std::string leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const std::string year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
const std::string month_and_day =
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])"
    ")";
const std::string date = any_of({year + "-" + month_and_day, leap_year + "-02-29"});
const std::string hour_and_minute = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
const std::string time_of_day = hour_and_minute + ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" + hour_and_minute + ")";
const std::string some = "[0-9]{1,9}";
const std::string duration_time =
    "T(?:" + some + "H(?:" + some + "M(?:" + some + "S)?)?|" + some + "M(?:" + some + "S)?|" + some + "S)";
const std::string duration = "P(?:" + some + "W|" + duration_time + "|(?:" + some + "Y(?:" + some + "M(?:" + some +
                             "D)?)?|" + some + "M(?:" + some + "D)?|" + some + "D)(?:" + duration_time + ")?)";

const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string ipv4 = byte + "(?:\\." + byte + "){3}";

std::string ipv6() {
  const std::string part = "[0-9a-fA-F]{1,4}";
  const auto before = [&](int min, int max) {
    return "(?:" + part + ":){" + std::to_string(min) + "," + std::to_string(max) + "}";
  };
  const auto behind = [&](int min, int max) {
    return "(?::" + part + "){" + std::to_string(min) + "," + std::to_string(max) + "}";
  };
  std::vector<std::string> forms = {before(7, 7) + part, before(1, 7) + ":",
                                    ":" + behind(1, 7),  "::",
                                    before(6, 6) + ipv4, ":" + behind(0, 5) + ":" + ipv4};
  for (int count = 1; count <= 6; ++count) forms.push_back(before(count, count) + behind(1, 7 - count));
  for (int count = 1; count <= 5; ++count) forms.push_back(before(count, count) + behind(0, 5 - count) + ":" + ipv4);
  return any_of(forms);
}

// At most 8 labels of at most 30 letters, digits and single hyphens, so below 253 characters together.
const std::string label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,28}[a-zA-Z0-9])?";
const std::string hostname = label + "(?:\\." + label + "){0,7}";
const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
const std::string email = atom + "(?:\\." + atom + "){0,2}@" + hostname;

// RFC 3986, without names of users and hosts in brackets.
const std::string escaped = "%[0-9a-fA-F]{2}";
const std::string in_host = "(?:[a-zA-Z0-9._~!$&'()*+,;=-]|" + escaped + ")";
const std::string in_path = "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|" + escaped + ")";
const std::string in_first = "(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|" + escaped + ")";  // a scheme would end at a colon
const std::string authority_and_path = "//" + in_host + "*(?::[0-9]{1,5})?(?:/" + in_path + "*)*";
const std::string rooted_path = "/(?:" + in_path + "+(?:/" + in_path + "*)*)?";
const std::string query_and_fragment = "(?:\\?(?:" + in_path + "|[/?])*)?(?:#(?:" + in_path + "|[/?])*)?";
const std::string uri =
    "[a-zA-Z][a-zA-Z0-9+.-]*:" + any_of({authority_and_path, rooted_path, in_path + "+(?:/" + in_path + "*)*", ""}) +
    query_and_fragment;
const std::string relative =
    any_of({authority_and_path, rooted_path, in_first + "+(?:/" + in_path + "*)*", ""}) + query_and_fragment;
const std::string variable = "[a-zA-Z0-9_]+(?:\\*|:[1-9][0-9]{0,3})?";
const std::string uri_template =
    "(?:[a-zA-Z0-9!#$&()*+,./:;=?@_~\\[\\]-]|" + escaped + "|\\{[+#./;?&]?" + variable + "(?:," + variable + ")*\\})*";

const std::string pointer = "(?:/(?:[^~/]|~[01])*)*";

std::vector<TextFormat> made() {
  std::vector<TextFormat> formats;
  const auto add = [&](std::string_view name, const std::string& expression, bool whole) {
    formats.push_back({name, texts_matching("^(?:" + expression + ")$"), whole});
  };
  add("date", date, false);
  add("time", time_of_day, false);
  add("date-time", date + "T" + time_of_day, false);
  add("duration", duration, false);
  add("uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", true);
  add("ipv4", ipv4, true);
  add("ipv6", ipv6(), true);
  add("uri", uri, false);
  add("uri-reference", any_of({uri, relative}), false);
  add("iri", uri, false);
  add("iri-reference", any_of({uri, relative}), false);
  add("uri-template", uri_template, false);
  add("json-pointer", pointer, true);
  add("relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + pointer + ")", true);
  // Two hyphens begin a name in another script, of which not every one is right.
  const RegularLanguage hosts = texts_matching("^(?:" + hostname + ")$").without(texts_matching("--"));
  const RegularLanguage mailboxes = texts_matching("^(?:" + email + ")$").without(texts_matching("@.*--"));
  for (const char* const name : {"hostname", "idn-hostname"}) formats.push_back({name, hosts, false});
  for (const char* const name : {"email", "idn-email"}) formats.push_back({name, mailboxes, false});
  return formats;
}

}  // namespace

const TextFormat* find_text_format(std::string_view name) {
  static const std::vector<TextFormat> formats = made();
  const auto found = std::ranges::find(formats, name, &TextFormat::name);
  return found == formats.end() ? nullptr : &*found;
}

}  // namespace draftproof
