# haypile_module(NAME [COLD] [EACH_ALONE] [WITHOUT file...] [ALONE file...] [DEPS module...] [LIBS target...])
# One call makes the library haypile_NAME from the folder's sources, plus its tests, benches and fuzzers:
#   x.cc        -> library haypile_NAME (alias haypile::NAME)
#   x_test.cc   -> one test program NAME_test, registered with CTest case by case
#   x_bench.cc  -> one benchmark program NAME_bench
#   x_fuzz.cc   -> a libFuzzer program x_fuzz each (with HAYPILE_FUZZ)
#   x_avx2.cc, x_avx512.cc, x_avx512_bf16.cc, x_amx.cc, x_avx2_test.cc -> the only sources with instruction-set flags, on x86-64
#   x_neon.cc   -> needs none of these: what it uses every AArch64 processor has
# COLD: its time never matters to a user; see PrecompiledHeaders.cmake. WITHOUT: sources that this build leaves out.
# ALONE: sources that are compiled by themselves, EACH_ALONE: all of them; see UnityBuild.cmake.
# DEPS are the modules this one may include; tools/check_layers.py reads them from this call.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(HAYPILE_AVX2_FLAGS -mavx2 -mfma -mf16c)
  set(HAYPILE_AVX512_FLAGS -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(HAYPILE_AVX512_BF16_FLAGS -mavx512bf16 -mavx512vnni -mavx512vbmi)
  set(HAYPILE_AMX_FLAGS -mamx-tile -mamx-bf16)
endif()
set(HAYPILE_NEON_FLAGS "" CACHE STRING "Compiler flags that x_neon.cc has after the build type's")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12 warns about its own intrinsics
  list(APPEND HAYPILE_AVX512_FLAGS -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
# UBSan and coverage of their unrolled loops take minutes to compile; AddressSanitizer stays, and the scalar kernels have
# all three.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND HAYPILE_SANITIZE)
  list(APPEND HAYPILE_AVX2_FLAGS -fno-sanitize=undefined,fuzzer-no-link)
  list(APPEND HAYPILE_AVX512_FLAGS -fno-sanitize=undefined,fuzzer-no-link)
endif()

function(haypile_module NAME)
  cmake_parse_arguments(ARG "COLD;EACH_ALONE" "" "WITHOUT;ALONE;DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(TRANSFORM ARG_WITHOUT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(REMOVE_ITEM sources ${ARG_WITHOUT})
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")

  set(deps ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    list(APPEND deps haypile::${dep})
  endforeach()
  foreach(source IN LISTS sources tests)
    if(source MATCHES "_avx2(_test)?\\.cc$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${HAYPILE_AVX2_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${HAYPILE_AVX512_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
    elseif(source MATCHES "_avx512_bf16\\.cc$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${HAYPILE_AVX512_FLAGS};${HAYPILE_AVX512_BF16_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
    elseif(source MATCHES "_amx\\.cc$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${HAYPILE_AVX512_FLAGS};${HAYPILE_AVX512_BF16_FLAGS};${HAYPILE_AMX_FLAGS}"
        SKIP_PRECOMPILE_HEADERS ON)
    elseif(source MATCHES "_neon\\.cc$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${HAYPILE_NEON_FLAGS}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()

  if(NOT sources)
    add_library(haypile_${NAME} INTERFACE)
    add_library(haypile::${NAME} ALIAS haypile_${NAME})
    return()
  endif()
  add_library(haypile_${NAME} STATIC ${sources})
  add_library(haypile::${NAME} ALIAS haypile_${NAME})
  target_link_libraries(haypile_${NAME} PUBLIC ${deps})
  if(ARG_COLD)
    haypile_precompile(haypile_${NAME} cold)
  else()
    haypile_precompile(haypile_${NAME} hot)
  endif()
  if(NOT ARG_EACH_ALONE)
    haypile_unity(haypile_${NAME} ${ARG_ALONE})
  endif()

  if(tests)
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE haypile_${NAME} GTest::gtest GTest::gtest_main)
    haypile_precompile(${NAME}_test test)
    if(NOT ARG_EACH_ALONE)
      haypile_unity(${NAME}_test ${ARG_ALONE})
    endif()
    target_compile_definitions(${NAME}_test PRIVATE
      HAYPILE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" HAYPILE_TESTDATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/testdata")
    add_test(NAME ${NAME}_test COMMAND ${NAME}_test)
  endif()
  if(benches AND NOT HAYPILE_KERNELS_ONLY)
    add_executable(${NAME}_bench ${benches})
    target_link_libraries(${NAME}_bench PRIVATE haypile_${NAME} benchmark::benchmark_main)
  endif()
  if(HAYPILE_FUZZ)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(target ${fuzzer} NAME_WE)
      add_executable(${target} ${fuzzer})
      target_link_libraries(${target} PRIVATE haypile_${NAME} -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
