# haypile_precompile(TARGET KIND): with HAYPILE_PRECOMPILE, TARGET is compiled with third-party headers that were parsed
# once for all targets of its KIND. A kind has flags of its own, since a precompiled header holds for one level of
# optimization:
#   hot    libraries, as the build type says
#   cold   libraries that never bound a command's time: less optimization
#   test   test programs: HAYPILE_TEST_FLAGS
# A source must include what it uses all the same; the preset dev compiles without.
option(HAYPILE_PRECOMPILE "Precompile third-party headers" OFF)
set(HAYPILE_TEST_FLAGS "" CACHE STRING "Compiler flags that tests have after the build type's")
set(HAYPILE_KIND_FLAGS_hot "")
set(HAYPILE_KIND_FLAGS_cold "$<IF:$<CONFIG:Release>,-O1,-O0>")
set(HAYPILE_KIND_FLAGS_test "${HAYPILE_TEST_FLAGS}")
if(HAYPILE_FUZZ)  # fuzzers look for new paths in libraries alone
  list(APPEND HAYPILE_KIND_FLAGS_test -fno-sanitize=fuzzer-no-link)
endif()

set(HAYPILE_PRECOMPILED <fmt/format.h> <algorithm> <array> <cmath> <functional> <map> <memory> <optional> <span> <string>
    <string_view> <unordered_map> <utility> <vector>)
# Clang reads of a precompiled header what is used; GCC reads it all, which is too much for the many sources without JSON.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND HAYPILE_PRECOMPILED <nlohmann/json.hpp>)
endif()

if(HAYPILE_PRECOMPILE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled_headers.cc CONTENT "")
  foreach(kind hot cold test)
    add_library(haypile_headers_${kind} OBJECT ${PROJECT_BINARY_DIR}/precompiled_headers.cc)
    target_link_libraries(haypile_headers_${kind} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
    target_compile_options(haypile_headers_${kind} PRIVATE ${HAYPILE_KIND_FLAGS_${kind}})
    target_precompile_headers(haypile_headers_${kind} PRIVATE ${HAYPILE_PRECOMPILED})
  endforeach()
  target_link_libraries(haypile_headers_test PRIVATE GTest::gtest)
  target_precompile_headers(haypile_headers_test PRIVATE <gtest/gtest.h>)
  if(NOT HAYPILE_KERNELS_ONLY)
    target_precompile_headers(haypile_headers_test PRIVATE <nlohmann/json.hpp>)
  endif()
endif()

function(haypile_precompile TARGET KIND)
  target_compile_options(${TARGET} PRIVATE ${HAYPILE_KIND_FLAGS_${KIND}})
  if(HAYPILE_PRECOMPILE)
    target_precompile_headers(${TARGET} REUSE_FROM haypile_headers_${KIND})
  endif()
endfunction()
