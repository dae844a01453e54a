# SPDX-License-Identifier: MIT
# Installs `public_headers` of `source`, with the headers that they include, below `include_folder`. There they include
# each other as their users include them: <draftproof/ref/base/token.h>.
cmake_minimum_required(VERSION 3.25)  # an installation runs this without any policy, and IN_LIST is one
set(waiting ${public_headers})
set(seen ${public_headers})
while(waiting)
  list(POP_FRONT waiting header)
  file(READ "${source}/${header}" text)
  string(REGEX MATCHALL "#include \"(kernels|ref|oracle)/[^\"]*\"" lines "${text}")
  foreach(line ${lines})
    string(REGEX REPLACE "#include \"(.*)\"" "\\1" included "${line}")
    if(NOT included IN_LIST seen)
      list(APPEND seen ${included})
      list(APPEND waiting ${included})
    endif()
  endforeach()
  get_filename_component(folder "${include_folder}/${header}" DIRECTORY)
  file(INSTALL "${source}/${header}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
  string(REGEX REPLACE "#include \"((kernels|ref|oracle)/[^\"]*)\"" "#include <draftproof/\\1>" text "${text}")
  file(WRITE "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${include_folder}/${header}" "${text}")
endwhile()
