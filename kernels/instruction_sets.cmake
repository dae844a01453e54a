# SPDX-License-Identifier: MIT
# Compiler options of the files of each instruction set, for every project that builds this folder.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(options_avx2 -mavx2 -mfma -mf16c)
  set(options_avx2_vnni ${options_avx2} -mavxvnni)
  set(options_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma)
  set(options_avx512_vnni ${options_avx512} -mavx512vnni)
  set(options_amx ${options_avx512_vnni} -mgfni -mamx-tile -mamx-int8)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(options_neon -march=armv8.2-a+dotprod)
endif()
foreach(set avx2 avx2_vnni avx512 avx512_vnni amx neon)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/${set}.cpp PROPERTIES COMPILE_OPTIONS "${options_${set}}")
endforeach()
