# SPDX-License-Identifier: MIT
# The git commit that --version prints. Every build runs this file as a script, which writes commit.cpp only when the
# commit has changed: then one small file is compiled and the command is linked again.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
                  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
// SPDX-License-Identifier: MIT
namespace draftproof {
extern const char* const commit;
const char* const commit = "@commit@";
}  // namespace draftproof
]] @ONLY)
  return()
endif()

set(commit_source ${CMAKE_BINARY_DIR}/generated/commit.cpp)
add_custom_target(commit BYPRODUCTS ${commit_source} COMMENT ""
                  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${commit_source}
                          -P ${CMAKE_CURRENT_LIST_FILE})
set_source_files_properties(${commit_source} PROPERTIES GENERATED ON SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(draftproof_tools PRIVATE ${commit_source})
add_dependencies(draftproof_tools commit)
