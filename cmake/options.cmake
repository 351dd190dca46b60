# SPDX-License-Identifier: BSD-3-Clause
# Compiler flags of every target, by build type and option.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# Release has line tables for profiles and no frame pointer; Debug is -O0, as the determinism check
# wants it; RelWithDebInfo serves the sanitizers. DCHECK is on in all but Release.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

# No contraction: the simulator's figures are the same from every compiler. No interposition: calls
# inside a position-independent file may be inlined.
add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers -ffp-contract=off
                    -fno-semantic-interposition)
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()

if(WEFT_FUZZ AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "weft: WEFT_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
if(WEFT_FUZZ)
  set(WEFT_SANITIZE address,undefined)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

find_program(WEFT_CCACHE_PROGRAM ccache)
mark_as_advanced(WEFT_CCACHE_PROGRAM)
if(WEFT_CCACHE AND WEFT_CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WEFT_CCACHE_PROGRAM})
endif()
