# Warnings, sanitizers and the promise of IEEE arithmetic, for every target of the project.
# GCC 12 is wrong about std::string (-Wrestrict, its bug 105651) and about fmt's buffers (-Wstringop-overflow).
add_compile_options(-Wall -Wextra -Wshadow -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(HAYPILE_WERROR)
  add_compile_options(-Werror)
endif()
# Contraction would make scalar and vector paths round differently from compiler to compiler.
add_compile_options(-ffp-contract=off -fno-omit-frame-pointer)
if(HAYPILE_SANITIZE)
  add_compile_options(-fsanitize=${HAYPILE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HAYPILE_SANITIZE})
endif()
if(HAYPILE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
include_directories(${PROJECT_SOURCE_DIR}/src)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache keeps what was compiled with a precompiled header only when it is told that such builds are alike.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()
