# SPDX-License-Identifier: BSD-3-Clause
# One static library per room. weft_room(NAME FOLDER DEPS...) compiles FOLDER/*.cpp (and the folders
# below it) and may link only the rooms it names: the same permissions as tests/tidy checks for
# includes. Extensions (ports, providers, controllers, algorithms) are found by where they lie, see
# docs/extending.
include(cmake/manifest.cmake)

function(weft_room NAME FOLDER)
  file(GLOB_RECURSE SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${FOLDER}/*.cpp)
  if(SOURCES)
    set(KIND PUBLIC)
    add_library(weft_${NAME} STATIC ${SOURCES})
    set_property(GLOBAL APPEND PROPERTY WEFT_ROOMS weft_${NAME})
  else()
    set(KIND INTERFACE)
    add_library(weft_${NAME} INTERFACE)
  endif()
  target_include_directories(weft_${NAME} ${KIND} ${PROJECT_SOURCE_DIR}/include
                                                  ${PROJECT_SOURCE_DIR})
  list(TRANSFORM ARGN PREPEND weft_ OUTPUT_VARIABLE DEPS)
  target_link_libraries(weft_${NAME} ${KIND} ${DEPS} Threads::Threads)
endfunction()

weft_room(base lib/base)
set_source_files_properties(lib/base/module/module.cpp PROPERTIES COMPILE_DEFINITIONS
                            WEFT_VERSION="${PROJECT_VERSION}")
target_link_libraries(weft_base PUBLIC ${CMAKE_DL_LIBS})
set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${CMAKE_DL_LIBS})
weft_room(wire lib/wire base)
weft_room(memory lib/memory base)
weft_room(congestion lib/congestion base)
weft_names_in(lib/congestion/controllers *.cpp FILES)
weft_registry(weft_congestion HEADER lib/congestion/manifest.hpp NAMESPACE weft::congestion
              TYPE ControllerFile PREFIX controllers_of FUNCTION controller_files NAMES ${FILES})
weft_room(transport lib/transport base wire memory congestion)
weft_room(roce lib/roce transport base wire memory congestion)
weft_room(srd lib/srd transport base wire memory congestion)
weft_room(driver lib/driver base memory transport)
weft_room(crypto lib/crypto base)
include(cmake/crypto.cmake)
weft_room(verbs lib/verbs base memory crypto)
# What ports share, and wrap them in.
weft_room(port_ethernet providers/port/ethernet transport wire memory base)
weft_room(port_middleware providers/port/middleware transport wire memory base)
weft_room(port_secure providers/port/secure port_middleware crypto transport wire memory base)
weft_room(software providers/software verbs driver roce srd transport congestion wire memory base
          crypto port_secure port_middleware)
include(cmake/ports.cmake)
include(cmake/providers.cmake)

# The C API, a part of libweft.
weft_room(c lib/adapters/c verbs)
set_source_files_properties(lib/adapters/c/text.cpp PROPERTIES COMPILE_DEFINITIONS
                            WEFT_VERSION="${PROJECT_VERSION}")

# What the core leaves out: the simulator with its port, which no device string names, collectives,
# which stand above the public API, and what is built of both.
if(NOT WEFT_CORE)
  weft_room(sim lib/sim base wire congestion transport roce srd)
  weft_room(port_sim providers/port/sim transport wire memory base sim)
  weft_room(collective lib/collective base crypto verbs)
  weft_names_in(lib/collective/algorithm *.cpp FILES)
  weft_registry(weft_collective HEADER lib/collective/plan/manifest.hpp NAMESPACE weft::collective
                TYPE AlgorithmFile PREFIX algorithms_of FUNCTION algorithm_files NAMES ${FILES})
  # Schedules of collectives on the simulator's fabric.
  weft_room(job lib/job base sim collective)
  weft_room(message lib/message base)
  # The C API of the simulator, a part of libweft.so.
  weft_room(c_sim lib/adapters/sim c sim congestion)
  # What a peer may send to the plug-in of NCCL, for its tests too. It needs no other room.
  add_library(weft_nccl_wire STATIC lib/adapters/nccl/handle.cpp lib/adapters/nccl/messages.cpp)
  target_include_directories(weft_nccl_wire PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                   ${PROJECT_SOURCE_DIR})
  # Everything, for tests and benchmarks that are not about one room.
  add_library(weft_all INTERFACE)
  target_link_libraries(weft_all INTERFACE weft_job weft_collective weft_providers weft_port_sim)
endif()

# gcc clears a struct of 100 bytes by `rep stos`, which takes as long as all else done with it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set_source_files_properties(
    lib/srd/engine.cpp lib/srd/post.cpp lib/srd/receive/receive.cpp lib/srd/receive/admit.cpp
    lib/srd/receive/replies.cpp lib/srd/receive/acks.cpp lib/srd/receive/trim.cpp
    lib/srd/send/send.cpp lib/srd/send/build_packet.cpp
    PROPERTIES COMPILE_OPTIONS "-mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign")
endif()
# Loops over elements: -O2 of gcc 12 does not vectorise them.
set_source_files_properties(lib/collective/arithmetic/arithmetic.cpp lib/srd/receive/execute_add.cpp
                            PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")

if(WEFT_HAVE_ISAL)
  target_compile_definitions(weft_wire PRIVATE WEFT_HAVE_ISAL=1)
  target_include_directories(weft_wire PRIVATE ${ISAL_INCLUDE})
  target_link_libraries(weft_wire PUBLIC ${ISAL_LIBRARY})
  set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES isal)
endif()

# These read the memory of applications, which may change it while it is sent: a race that RDMA
# cannot exclude, and that the ICRC is computed so as to survive. Not for the thread sanitizer.
if(WEFT_SANITIZE MATCHES thread)
  set_source_files_properties(lib/wire/crc.cpp lib/wire/crc_portable.cpp lib/wire/crc_vpclmul.cpp
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
endif()

# Rooms that are compiled in batches: in the core what a newcomer does not measure. What moves
# packets is compiled as in the release.
if(WEFT_CORE)
  foreach(ROOM port_middleware provider_roce provider_srd verbs)
    weft_batch(weft_${ROOM} 8)
  endforeach()
endif()
