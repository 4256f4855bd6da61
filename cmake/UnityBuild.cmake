# haypile_unity(TARGET [file...]): with HAYPILE_UNITY, all sources of TARGET are compiled as one, which takes a third of
# the time: headers are read and templates compiled once. So names at file scope are those of the whole target: two files
# cannot each have an own `Request`. Better give one of them another name or share it; files that are listed, and those
# with flags of their own, are compiled by themselves.
option(HAYPILE_UNITY "Compile all sources of a module as one" OFF)

function(haypile_unity TARGET)
  if(NOT HAYPILE_UNITY)
    return()
  endif()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # GCC takes what a .cc file defines for what a header would.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${TARGET} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
