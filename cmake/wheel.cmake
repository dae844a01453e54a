# SPDX-License-Identifier: MIT
# What a wheel has beside the module and the files of python/draftproof.
#
# DRAFTPROOF_PYTHON_FROM takes the module from a build folder, so that a wheel of what was just tested needs no compiler:
#     pip wheel ./python -C cmake.define.DRAFTPROOF_PYTHON_FROM=build

# The models that tests of other engines begin with: as much as a wheel should weigh.
set(package_models tale-target tale-small)
foreach(model ${package_models})
  install(DIRECTORY fixtures/models/${model} DESTINATION draftproof/models COMPONENT python EXCLUDE_FROM_ALL
          PATTERN training.json EXCLUDE)
endforeach()
if(NOT DRAFTPROOF_PYTHON_FROM)
  return()
endif()

find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
get_filename_component(built ${DRAFTPROOF_PYTHON_FROM} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
set(module ${built}/python/draftproof/_core.${Python3_SOABI}.so)
if(NOT EXISTS ${module})
  message(FATAL_ERROR "${module} is not there: build the target draftproof_python in ${built} with this Python")
endif()
install(FILES ${module} DESTINATION draftproof COMPONENT python
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
add_custom_target(draftproof_python)  # what a wheel asks to build
