# Files of device text, compiled into a library: npusim_embed(npusim_print print/cuda NAMESPACE npusim::print_cuda) has
# of every .cuh file of src/print/cuda its parts as an array of the file's name (base/text_part.h), in the header
# "print/cuda/embedded.h", which is written anew when one of the files has changed.
#
# A file opens with a sentence and what compiles it alone, #pragma once and #includes; nothing of this is embedded. Each
# part begins with a line `// ---- NAME`. Comments that follow that line at once are for readers of the file; programs
# have what comes then. A part without a name, a name twice and text before the first part are errors.
# EXCEPT names files that are not embedded.
function(npusim_embed target folder)
  cmake_parse_arguments(arg "" "NAMESPACE" "EXCEPT" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cuh)
  list(TRANSFORM arg_EXCEPT PREPEND ${CMAKE_SOURCE_DIR}/src/${folder}/)
  list(REMOVE_ITEM files ${arg_EXCEPT})
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  set(header ${CMAKE_BINARY_DIR}/embedded/${folder}/embedded.h)
  add_custom_command(OUTPUT ${header} DEPENDS ${files} ${script} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -D "files=${files}" -D namespace=${arg_NAMESPACE} -D header=${header}
                             -P ${script}
                     COMMENT "Embedding src/${folder}/*.cuh")
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

cmake_minimum_required(VERSION 3.25)
# Texts have brackets and semicolons, which lists of CMake would take apart: they are only searched and cut.
set(out "// Written by cmake/embed.cmake.\n#pragma once\n#include <array>\n\n#include \"base/text_part.h\"\n\n")
string(APPEND out "namespace ${namespace} {\n")
set(mark "\n// ---- ")
string(LENGTH "${mark}" mark_length)
foreach(file IN LISTS files)
  get_filename_component(stem "${file}" NAME_WE)
  file(READ "${file}" rest)
  string(FIND "${rest}" "${mark}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${file}: no line '// ---- NAME' begins a part")
  endif()
  string(SUBSTRING "${rest}" 0 ${at} head)
  string(REGEX REPLACE "(//|#)[^\n]*" "" head "${head}")
  string(STRIP "${head}" head)
  if(NOT head STREQUAL "")
    message(FATAL_ERROR "${file}: text before the first part")
  endif()
  string(APPEND out "inline constexpr std::array ${stem}{\n")
  set(names "")
  while(NOT at EQUAL -1)
    math(EXPR at "${at} + ${mark_length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(FIND "${rest}" "\n" end)
    string(SUBSTRING "${rest}" 0 ${end} name)
    math(EXPR end "${end} + 1")
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(FIND "${rest}" "${mark}" at)
    string(SUBSTRING "${rest}" 0 ${at} text)  # -1: the last part
    while(text MATCHES "^//[^\n]*\n")
      string(LENGTH "${CMAKE_MATCH_0}" comment)
      string(SUBSTRING "${text}" ${comment} -1 text)
    endwhile()
    string(REGEX REPLACE "\n+$" "" text "${text}")
    if(NOT name MATCHES "^[A-Za-z_][A-Za-z_0-9]*$")
      message(FATAL_ERROR "${file}: '${name}' is no name of a part")
    elseif(name IN_LIST names)
      message(FATAL_ERROR "${file}: two parts are ${name}")
    elseif(text STREQUAL "" OR text MATCHES "\\)cuh\"")
      message(FATAL_ERROR "${file}: the text of ${name} cannot be embedded")
    endif()
    list(APPEND names ${name})
    string(APPEND out "TextPart{\"${name}\", R\"cuh(${text})cuh\"},\n")
  endwhile()
  string(APPEND out "};\n")
endforeach()
string(APPEND out "}  // namespace ${namespace}\n")
file(WRITE "${header}" "${out}")
