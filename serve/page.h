// SPDX-License-Identifier: MIT
// The page of the server, serve/page.html, as CMake has put it into the program.
#pragma once

#include <string_view>

namespace draftproof::serve {

std::string_view page();

}  // namespace draftproof::serve
