# SPDX-License-Identifier: BSD-3-Clause
# Headers that are parsed once and not in each of 900 files: cmake/precompiled/*.hpp. A header of
# weft is never among them. weft_precompile(TARGET KIND) gives TARGET those of KIND, with the
# optimization of KIND: -O1 for tests and tools, which call the library that does the work, and the
# library's -O2 for programs that measure.
option(WEFT_PRECOMPILE "parse the largest headers once" ON)
set(WEFT_LIGHT_OPTIMIZATION $<$<CONFIG:Release>:-O1>)

# weft_precompiled_headers(KIND HEADER CODE OPTIMIZATION): CODE is -fPIC for libraries, -fPIE for
# programs, since a precompiled header serves only files that are compiled with the same options.
function(weft_precompiled_headers KIND HEADER CODE OPTIMIZATION)
  set(WEFT_OPTIMIZATION_${KIND} ${OPTIMIZATION} CACHE INTERNAL "")
  if(NOT WEFT_PRECOMPILE)
    return()
  endif()
  set(SOURCE ${CMAKE_BINARY_DIR}/precompiled_${KIND}.cpp)
  file(CONFIGURE OUTPUT ${SOURCE} CONTENT "")
  add_library(weft_precompiled_${KIND} OBJECT ${SOURCE})
  set_target_properties(weft_precompiled_${KIND} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(weft_precompiled_${KIND} PRIVATE ${CODE} ${OPTIMIZATION})
  target_include_directories(weft_precompiled_${KIND} PRIVATE ${PROJECT_SOURCE_DIR}
                                                              ${PROJECT_SOURCE_DIR}/include)
  target_precompile_headers(weft_precompiled_${KIND} PRIVATE
                            ${PROJECT_SOURCE_DIR}/cmake/precompiled/${HEADER}.hpp)
endfunction()

function(weft_precompile TARGET KIND)
  target_compile_options(${TARGET} PRIVATE ${WEFT_OPTIMIZATION_${KIND}})
  if(TARGET weft_precompiled_${KIND})
    target_precompile_headers(${TARGET} REUSE_FROM weft_precompiled_${KIND})
    # gcc forgets in precompiled headers where libstdc++ silences these for its own code.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${TARGET} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
                                               -Wno-restrict -Wno-maybe-uninitialized)
    endif()
  endif()
endfunction()

# Compiles the sources of TARGET in batches of SIZE files: what they include is parsed, and what
# they instantiate is compiled, once for each batch. Not for the library: a batch may inline across
# its files, and a change of one file compiles them all. Names in unnamed namespaces are unique in a
# batch.
option(WEFT_BATCHES "compile several files at once where that saves time" ON)
function(weft_batch TARGET SIZE)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${WEFT_BATCHES}
                                             UNITY_BUILD_BATCH_SIZE ${SIZE})
endfunction()
