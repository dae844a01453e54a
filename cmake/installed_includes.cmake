# SPDX-License-Identifier: MIT
# Installed headers include each other as their users include them: <draftproof/ref/base/token.h>.
file(GLOB_RECURSE headers "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${include_folder}/*.h")
foreach(header ${headers})
  file(READ ${header} text)
  string(REGEX REPLACE "#include \"((kernels|ref|oracle)/[^\"]*)\"" "#include <draftproof/\\1>" text "${text}")
  file(WRITE ${header} "${text}")
endforeach()
