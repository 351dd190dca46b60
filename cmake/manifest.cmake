# SPDX-License-Identifier: BSD-3-Clause
# Extensions register themselves: each file (or folder) NAME defines a function PREFIX_NAME, by the
# macro of its header. weft_registry generates a source of TARGET that lists these functions, so
# that the linker neither drops a file of a static library nor accepts one that registers nothing. A
# program with a list of its own, linked before the room, has extensions of its own.
#
# An extension whose port.cmake or provider.cmake names a package (PORT_MODULE, PROVIDER_MODULE) is
# a module of libweft.so (cmake/product.cmake). A program that links rooms has it linked in.
#
# weft_registry(TARGET HEADER header NAMESPACE namespace TYPE pointer to such a function
#               PREFIX prefix FUNCTION the function that returns the list NAMES name...)
function(weft_registry TARGET)
  cmake_parse_arguments(PARSE_ARGV 1 R "" "HEADER;NAMESPACE;TYPE;PREFIX;FUNCTION" "NAMES")
  foreach(KEY HEADER NAMESPACE TYPE FUNCTION)
    set(${KEY} ${R_${KEY}})
  endforeach()
  set(DECLARATIONS "")
  set(NAMES "")
  foreach(NAME ${R_NAMES})
    string(APPEND DECLARATIONS "Registered ${R_PREFIX}_${NAME}();\n")
    string(APPEND NAMES "${R_PREFIX}_${NAME}, ")
  endforeach()
  set(LIST ${PROJECT_BINARY_DIR}/generated/${TARGET}/${FUNCTION}.cpp)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/registry.cpp.in ${LIST} @ONLY)
  set_source_files_properties(${LIST} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${TARGET} PRIVATE ${LIST})
endfunction()

# The files of FOLDER that match PATTERN, sorted: their names without suffix. They know nothing of
# each other, so that each is compiled alone: two may have a name in common.
function(weft_names_in FOLDER PATTERN RESULT)
  file(GLOB FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FOLDER}/${PATTERN})
  set_source_files_properties(${FILES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  list(SORT FILES)
  set(NAMES)
  foreach(FILE ${FILES})
    get_filename_component(NAME ${FILE} NAME_WE)
    list(APPEND NAMES ${NAME})
  endforeach()
  set(${RESULT} ${NAMES} PARENT_SCOPE)
endfunction()

# The folders of FOLDER that hold FILE, sorted.
function(weft_folders_with FILE FOLDER RESULT)
  file(GLOB FILES CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${FOLDER}
       ${PROJECT_SOURCE_DIR}/${FOLDER}/*/${FILE})
  list(SORT FILES)
  list(TRANSFORM FILES REPLACE "/.*" "")
  set(${RESULT} ${FILES} PARENT_SCOPE)
endfunction()

# The words behind "MARK:" in the opening comment, to the end of the line, as a list. clang-format
# may have wrapped the comment there.
function(marked_words SOURCE MARK RESULT)
  file(READ ${SOURCE} OPENING LIMIT 2000)
  set(WORDS)
  if(OPENING MATCHES "[ /]${MARK}:[ /\n]+([a-z_ ]+)")
    string(REGEX MATCHALL "[a-z_]+" WORDS "${CMAKE_MATCH_1}")
  endif()
  set(${RESULT} ${WORDS} PARENT_SCOPE)
endfunction()

# weft_declare_module(KIND NAME PACKAGE MISSING LIBRARIES): the extension NAME is the module
# KIND_NAME.so of libweft.so, in a Debian package of that name. MISSING: why it is not built, or "".
function(weft_declare_module KIND NAME PACKAGE MISSING LIBRARIES)
  set(MODULE ${KIND}_${NAME})
  set_property(GLOBAL APPEND PROPERTY WEFT_MODULES ${MODULE})
  set_property(GLOBAL APPEND PROPERTY WEFT_MODULE_LIBRARIES ${LIBRARIES})
  foreach(KEY KIND NAME PACKAGE MISSING LIBRARIES)
    set_property(GLOBAL PROPERTY WEFT_${MODULE}_${KEY} "${${KEY}}")
  endforeach()
endfunction()

# Sets KIND, NAME, PACKAGE, MISSING and LIBRARIES as declared.
macro(weft_module_declaration MODULE)
  foreach(KEY KIND NAME PACKAGE MISSING LIBRARIES)
    get_property(${KEY} GLOBAL PROPERTY WEFT_${MODULE}_${KEY})
  endforeach()
endmacro()
