# SPDX-License-Identifier: MIT
# Puts the page of the server into the program: page.cpp is written when serve/page.html has changed.
set(page_source ${CMAKE_BINARY_DIR}/generated/page.cpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/serve/page.html)
file(READ ${CMAKE_SOURCE_DIR}/serve/page.html page_html)
file(CONFIGURE OUTPUT ${page_source} CONTENT [==[
// SPDX-License-Identifier: MIT
#include "serve/page.h"

namespace draftproof::serve {

std::string_view page() {
  return R"page(@page_html@)page";
}

}  // namespace draftproof::serve
]==] @ONLY)
target_sources(draftproof_serve PRIVATE ${page_source})
