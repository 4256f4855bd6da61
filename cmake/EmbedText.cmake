# haypile_embed_text(TARGET HEADER ARRAY FILE...)
# Adds to TARGET a generated source that defines, as declared in HEADER,
#   const EmbeddedText ARRAY[] = {{"stem", content}, ...};  const size_t ARRAYCount;
# with each FILE byte for byte, in the order given. The source is made again when a file changes. It is a plain raw string
# literal, so no assembler, object tool or script interpreter is needed, and cross compilation just works.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(HAYPILE_EMBED_TEXT_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(haypile_embed_text TARGET HEADER ARRAY)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${ARRAY}.cc)
    string(REPLACE ";" "|" joined "${ARGN}")
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${HEADER} -DARRAY=${ARRAY} "-DFILES=${joined}"
              -P ${HAYPILE_EMBED_TEXT_SCRIPT}
      DEPENDS ${ARGN} ${HAYPILE_EMBED_TEXT_SCRIPT}
      COMMENT "Embedding the texts of ${ARRAY}" VERBATIM)
    target_sources(${TARGET} PRIVATE ${output})
  endfunction()
  return()
endif()

string(REPLACE "|" ";" files "${FILES}")
set(source "#include \"${HEADER}\"\n\nnamespace haypile {\n\nconst EmbeddedText ${ARRAY}[] = {\n")
set(count 0)
foreach(file IN LISTS files)
  get_filename_component(stem "${file}" NAME_WE)
  file(READ "${file}" content)
  string(FIND "${content}" ")haypile\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} contains the end mark of the raw string literal")
  endif()
  string(APPEND source "    {\"${stem}\", R\"haypile(${content})haypile\"},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND source "};\nconst size_t ${ARRAY}Count = ${count};\n\n}  // namespace haypile\n")
file(WRITE "${OUTPUT}" "${source}")
