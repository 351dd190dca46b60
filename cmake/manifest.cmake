# SPDX-License-Identifier: BSD-3-Clause
# Congestion controllers: each file of lib/congestion/controllers registers itself by its name (see
# lib/congestion/manifest.hpp). The generated source refers to one function of each file, so that
# the linker neither drops a file of the static library nor accepts one that registers nothing.
file(GLOB CONTROLLER_FILES CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/lib/congestion/controllers/*.cpp)
list(SORT CONTROLLER_FILES)
set(DECLARATIONS "")
set(NAMES "")
foreach(FILE ${CONTROLLER_FILES})
  get_filename_component(NAME ${FILE} NAME_WE)
  string(APPEND DECLARATIONS "std::span<const Kind* const> controllers_of_${NAME}();\n")
  string(APPEND NAMES "controllers_of_${NAME}, ")
endforeach()
set(CONTROLLER_LIST ${PROJECT_BINARY_DIR}/generated/controller_files.cpp)
configure_file(${PROJECT_SOURCE_DIR}/cmake/controller_files.cpp.in ${CONTROLLER_LIST} @ONLY)
target_sources(weft_congestion PRIVATE ${CONTROLLER_LIST})
