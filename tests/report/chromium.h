// SPDX-License-Identifier: MIT
// A headless browser, and what it measures on a page. Pages have no script, so another page frames them and
// measures from outside.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/folder.h"

namespace draftproof::test {

/// What the framing page finds, by name.
using Measures = std::map<std::string, double>;

struct Frame {
  std::string html;
  int width = 0;
};

struct Picture {
  unsigned width = 0;
  unsigned height = 0;
  std::string bytes;
};

class Chromium {
 public:
  /// Fails the test where there is none: a page nobody looked at has not passed.
  bool is_there() const {
    const bool found = std::system("command -v chromium >/dev/null 2>&1") == 0;
    EXPECT_TRUE(found) << "chromium is missing, so no page was looked at; install the Debian package chromium, or run "
                          "`make test-slow`, which does";
    return found;
  }

  /// Every frame laid out beside the others, all details open.
  std::vector<Measures> measured(const std::vector<Frame>& frames, bool dark = false) const {
    std::string body;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const std::string name = "page" + std::to_string(i) + ".html";
      put(folder_.path() / name, frames[i].html);
      body += "<iframe src=\"" + name + "\" style=\"border:0;height:900px;width:" + std::to_string(frames[i].width) +
              "px\"></iframe>\n";
    }
    put(folder_.path() / "frames.html",
        "<!DOCTYPE html>\n" + body + "<pre id=\"said\"></pre>\n<script>" + script + "</script>");
    const std::string dom = run("--allow-file-access-from-files --virtual-time-budget=20000 --dump-dom" + light(dark),
                                "frames.html", "2000,1000");
    const std::size_t from = dom.find("<pre id=\"said\">");
    EXPECT_NE(from, std::string::npos) << dom.substr(0, 2000);
    if (from == std::string::npos) return {};
    std::istringstream said(dom.substr(from + 15, dom.find("</pre>", from) - from - 15));
    std::vector<Measures> list(frames.size());
    std::size_t frame = 0;
    std::string name;
    double value = 0;
    std::size_t lines = 0;
    for (; said >> frame >> name >> value; ++lines) list.at(frame)[name] = value;
    EXPECT_EQ(lines, 9 * frames.size()) << "not every frame was measured: " << dom.substr(from, 2000);
    return list;
  }

  Picture pictured(const std::string& html, int width, int height, bool dark = false) const {
    put(folder_.path() / "page.html", html);
    // A window is never narrower than 500 pixels; a frame is.
    put(folder_.path() / "frame.html",
        "<!DOCTYPE html>\n<style>html, body { margin: 0; overflow: hidden }</style><iframe src=\"page.html\" "
        "style=\"border:0;display:block;width:" +
            std::to_string(width) + "px;height:" + std::to_string(height) + "px\"></iframe>");
    const files::path file = folder_.path() / "page.png";
    files::remove(file);
    run("--screenshot=" + quoted(file.string()) + light(dark), "frame.html",
        std::to_string(std::max(width, 500)) + "," + std::to_string(height));
    Picture picture{0, 0, text_of(file)};
    if (picture.bytes.size() < 24 || picture.bytes.substr(1, 3) != "PNG") return picture;
    const auto number_at = [&](std::size_t at) {
      unsigned number = 0;
      for (std::size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(picture.bytes[at + i]);
      return number;
    };
    picture.width = number_at(16);
    picture.height = number_at(20);
    return picture;
  }

  /// Addresses that a page asked the network for; the browser asks for some of its own, which have no origin.
  std::vector<std::string> asked_for(const std::string& html) const {
    put(folder_.path() / "page.html", html);
    const files::path log = folder_.path() / "net.json";
    files::remove(log);
    run("--virtual-time-budget=5000 --dump-dom --log-net-log=" + quoted(log.string()), "page.html", "1280,1000");
    const nlohmann::json json = nlohmann::json::parse(text_of(log), nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << "no log of the network was written";
    std::vector<std::string> addresses;
    if (json.is_discarded()) return addresses;
    const int started = json.at("constants").at("logEventTypes").at("URL_REQUEST_START_JOB");
    for (const auto& event : json.at("events")) {
      if (event.at("type") != started || !event.contains("params")) continue;
      const auto& params = event.at("params");
      if (params.contains("url") && params.value("initiator", "not an origin") != "not an origin") {
        addresses.push_back(params.at("url"));
      }
    }
    return addresses;
  }

 private:
  static std::string light(bool dark) { return dark ? " --blink-settings=preferredColorScheme=0" : ""; }

  /// Standard output. Nothing outside this machine is found, whatever is asked for; root may not use the sandbox.
  std::string run(const std::string& flags, const std::string& page, const std::string& window) const {
    const files::path out = folder_.path() / "out";
    const files::path err = folder_.path() / "err";
    const std::string line =
        "timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
        "--no-first-run --disable-background-networking --disable-component-update "
        "--host-resolver-rules='MAP * ~NOTFOUND' --user-data-dir=" +
        quoted((folder_.path() / "profile").string()) + " --window-size=" + window + " " + flags + " " +
        quoted("file://" + (folder_.path() / page).string()) + " >" + quoted(out.string()) + " 2>" +
        quoted(err.string()) + " </dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << line << "\n" << text_of(err).substr(0, 4000);
    return text_of(out);
  }

  static constexpr const char* script = R"js(
addEventListener('load', () => {
  let said = '';
  [...document.querySelectorAll('iframe')].forEach((frame, i) => {
    const page = frame.contentDocument, root = page.documentElement;
    page.querySelectorAll('details').forEach(details => details.open = true);
    let overlaps = 0, outside = 0, smallest = 99;
    for (const plot of page.querySelectorAll('svg.plot')) {
      const box = plot.getBoundingClientRect();
      const labels = [...plot.querySelectorAll('text')].map(label => {
        const size = parseFloat(frame.contentWindow.getComputedStyle(label).fontSize);
        smallest = Math.min(smallest, size * box.width / plot.viewBox.baseVal.width);
        return label.getBoundingClientRect();
      });
      labels.forEach((a, j) => {
        const beside = a.left < box.left - 1 || a.right > box.right + 1;
        if (beside || a.top < box.top - 1 || a.bottom > box.bottom + 1) ++outside;
        for (const b of labels.slice(j + 1)) {
          // Boxes of letters hold more than ink above and below.
          if (a.left < b.right && b.left < a.right && a.top + 3 < b.bottom - 3 && b.top + 3 < a.bottom - 3) ++overlaps;
        }
      });
    }
    let cut = 0;
    for (const element of page.body ? page.body.querySelectorAll('*') : []) {
      if (!element.closest('.scroll') && element.getBoundingClientRect().right > root.clientWidth + 1) ++cut;
    }
    const measures = {width: root.clientWidth, scroll: root.scrollWidth, overlaps, outside, smallest, cut,
      requests: frame.contentWindow.performance.getEntriesByType('resource').length,
      hostile: frame.contentWindow.hostile ? 1 : 0,
      background: parseInt(frame.contentWindow.getComputedStyle(root).backgroundColor.match(/\d+/)[0])};
    for (const name in measures) said += i + ' ' + name + ' ' + measures[name] + '\n';
  });
  document.getElementById('said').textContent = said;
});
)js";

  Folder folder_;
};

}  // namespace draftproof::test
