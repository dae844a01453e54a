# SPDX-License-Identifier: MIT
# Compiler options of the files of each instruction set, for every project that builds this folder.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(options_avx2 -mavx2 -mfma -mf16c)
  set(options_avx2_vnni ${options_avx2} -mavxvnni)
  set(options_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma)
  set(options_avx512_vnni ${options_avx512} -mavx512vnni)
  set(options_avx512_bf16 ${options_avx512_vnni} -mavx512bf16)
  set(options_emulated_amx ${options_avx512_vnni} -mgfni)
  set(options_amx ${options_emulated_amx} -mavx512bf16 -mamx-tile -mamx-int8)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(options_neon -march=armv8.2-a+dotprod)
endif()
foreach(set avx2 avx2_vnni avx512 avx512_vnni avx512_bf16 amx neon)
  if(DRAFTPROOF_FUZZ)  # no parser runs them, and they take minutes to compile with sanitizers
    list(APPEND options_${set} -fno-sanitize=all -O0)
  endif()
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/${set}.cpp PROPERTIES COMPILE_OPTIONS "${options_${set}}")
endforeach()
