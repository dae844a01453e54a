# SPDX-License-Identifier: MIT
# The Python module, where Python's headers and pybind11 are installed. build/python is then a folder for PYTHONPATH.
if(DRAFTPROOF_SANITIZE)
  return()  # sanitizers have to be there before Python is
endif()
if(DRAFTPROOF_PYTHON)
  set(required REQUIRED)
else()
  set(required QUIET)
endif()
find_package(Python3 COMPONENTS Interpreter Development.Module ${required})
if(Python3_Development.Module_FOUND)
  find_package(pybind11 2.10 CONFIG ${required})
endif()
if(NOT pybind11_FOUND)
  return()
endif()

set(package_folder ${CMAKE_BINARY_DIR}/python/draftproof)
file(GLOB sources CONFIGURE_DEPENDS python/*.cpp)
pybind11_add_module(draftproof_python MODULE NO_EXTRAS ${sources})
set_target_properties(draftproof_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${package_folder}
                      UNITY_BUILD OFF)
target_compile_options(draftproof_python PRIVATE -O1)  # it runs once per call
# Names of the libraries stay inside: other modules of a process may have others of the same name.
target_link_options(draftproof_python PRIVATE -Wl,--exclude-libs,ALL)
draftproof_link(draftproof_python PRIVATE tools nlohmann_json::nlohmann_json fmt::fmt)

file(GLOB package_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/draftproof
     python/draftproof/*.py python/draftproof/*.pyi python/draftproof/py.typed python/draftproof/adapters/*.py)
file(MAKE_DIRECTORY ${package_folder}/adapters)
foreach(file ${package_files})
  add_custom_command(OUTPUT ${package_folder}/${file} DEPENDS ${CMAKE_SOURCE_DIR}/python/draftproof/${file}
                     COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/python/draftproof/${file} ${package_folder}/${file})
endforeach()
list(TRANSFORM package_files PREPEND ${package_folder}/)
target_sources(draftproof_python PRIVATE ${package_files})

include(cmake/wheel.cmake)
file(MAKE_DIRECTORY ${package_folder}/models)
foreach(model ${package_models})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/fixtures/models/${model} ${package_folder}/models/${model} SYMBOLIC)
endforeach()

if(DRAFTPROOF_PYTHON)
  install(TARGETS draftproof_python LIBRARY DESTINATION draftproof COMPONENT python)
endif()
