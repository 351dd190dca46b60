# SPDX-License-Identifier: BSD-3-Clause
# One static library per room. weft_room(NAME FOLDER DEPS...) compiles FOLDER/*.cpp (and the folders
# below it) and may link only the rooms it names: the same permissions as tests/tidy checks for
# includes.
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
weft_room(wire lib/wire base)
weft_room(memory lib/memory base)
weft_room(congestion lib/congestion base)
include(cmake/manifest.cmake)
weft_room(transport lib/transport base wire memory congestion)
weft_room(roce lib/roce transport base wire memory congestion)
weft_room(srd lib/srd transport base wire memory congestion)
weft_room(driver lib/driver base memory transport)
weft_room(sim lib/sim base wire congestion transport roce srd)
weft_room(port_udp providers/port/udp transport wire memory base)
weft_room(port_shm providers/port/shm transport wire memory base)
weft_room(port_ethernet providers/port/ethernet transport wire memory base)
weft_room(port_af_packet providers/port/af_packet port_ethernet transport wire memory base)
if(WEFT_HAVE_DPDK)
  weft_room(port_dpdk providers/port/dpdk port_ethernet transport wire memory base)
  target_include_directories(weft_port_dpdk SYSTEM PRIVATE ${DPDK_INCLUDE_DIRS})
  target_compile_options(weft_port_dpdk PRIVATE ${DPDK_CFLAGS_OTHER})
  target_link_libraries(weft_port_dpdk PUBLIC ${WEFT_DPDK_LIBRARIES})
endif()
if(WEFT_HAVE_AF_XDP)
  weft_room(port_af_xdp providers/port/af_xdp port_ethernet transport wire memory base)
  target_link_libraries(weft_port_af_xdp PUBLIC ${WEFT_XDP_LIBRARIES})
endif()
weft_room(port_sim providers/port/sim transport wire memory base sim)
weft_room(port_middleware providers/port/middleware transport wire memory base)
weft_room(verbs lib/verbs base memory)
weft_room(software providers/software verbs driver roce srd transport congestion wire memory base
          port_udp port_shm port_af_packet port_middleware)
if(WEFT_HAVE_DPDK)
  target_link_libraries(weft_software PUBLIC weft_port_dpdk)
  target_compile_definitions(weft_software PRIVATE WEFT_HAVE_DPDK=1)
endif()
if(WEFT_HAVE_AF_XDP)
  target_link_libraries(weft_software PUBLIC weft_port_af_xdp)
  target_compile_definitions(weft_software PRIVATE WEFT_HAVE_AF_XDP=1)
endif()
weft_room(provider_roce providers/roce software roce verbs driver transport congestion wire memory
          base)
weft_room(provider_srd providers/srd software srd verbs driver transport congestion wire memory
          base)
if(WEFT_HAVE_IBVERBS)
  weft_room(provider_ibverbs providers/ibverbs verbs transport memory base)
  target_include_directories(weft_provider_ibverbs SYSTEM PRIVATE ${IBVERBS_INCLUDE})
  target_link_libraries(weft_provider_ibverbs PUBLIC ${CMAKE_DL_LIBS})
  target_compile_definitions(weft_provider_ibverbs PUBLIC WEFT_HAVE_EFA=${WEFT_HAVE_EFA}
                             PRIVATE WEFT_HAVE_RDMACM=${WEFT_HAVE_RDMACM})
  if(NOT WEFT_HAVE_RDMACM)
    file(GLOB OVER_RDMACM ${PROJECT_SOURCE_DIR}/providers/ibverbs/cm_*.cpp
         ${PROJECT_SOURCE_DIR}/providers/ibverbs/rdmacm.cpp)
    set_source_files_properties(${OVER_RDMACM} PROPERTIES HEADER_FILE_ONLY TRUE)
  endif()
  if(NOT WEFT_HAVE_EFA)
    file(GLOB OVER_EFA ${PROJECT_SOURCE_DIR}/providers/ibverbs/srd_*.cpp
         ${PROJECT_SOURCE_DIR}/providers/ibverbs/efa_library.cpp)
    set_source_files_properties(${OVER_EFA} PROPERTIES HEADER_FILE_ONLY TRUE)
  endif()
endif()

# The registry names each provider, and the public handles look providers up in it: a cycle of links
# (not of includes), which static libraries may have.
weft_room(providers providers/registry provider_roce provider_srd verbs)
target_link_libraries(weft_verbs PUBLIC weft_providers)
if(WEFT_HAVE_IBVERBS)
  target_link_libraries(weft_providers PUBLIC weft_provider_ibverbs)
  target_compile_definitions(weft_providers PRIVATE WEFT_HAVE_IBVERBS=1)
endif()

# Above the public API, which weft_verbs implements.
weft_room(collective lib/collective base verbs)
# gcc clears a struct of 100 bytes by `rep stos`, which takes as long as all else done with it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set_source_files_properties(
    lib/srd/engine.cpp lib/srd/post.cpp lib/srd/receive/receive.cpp
    lib/srd/send/send.cpp lib/srd/receive/acks.cpp
    PROPERTIES COMPILE_OPTIONS "-mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign")
endif()
# Loops over elements: -O2 of gcc 12 does not vectorise them.
set_source_files_properties(lib/collective/arithmetic/arithmetic.cpp lib/srd/receive/execute_add.cpp
                            PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")

# Everything, for tests and benchmarks that are not about one room.
add_library(weft_all INTERFACE)
target_link_libraries(weft_all INTERFACE weft_collective weft_providers weft_provider_roce
                                         weft_provider_srd weft_port_sim)

get_target_property(WIRE_KIND weft_wire TYPE)
if(WEFT_HAVE_ISAL AND NOT WIRE_KIND STREQUAL "INTERFACE_LIBRARY")
  target_compile_definitions(weft_wire PRIVATE WEFT_HAVE_ISAL=1)
  target_include_directories(weft_wire PRIVATE ${ISAL_INCLUDE})
  target_link_libraries(weft_wire PUBLIC ${ISAL_LIBRARY})
endif()

# These read the memory of applications, which may change it while it is sent: a race that RDMA
# cannot exclude, and that the ICRC is computed so as to survive. Not for the thread sanitizer.
if(WEFT_SANITIZE MATCHES thread)
  set_source_files_properties(lib/wire/crc.cpp lib/wire/crc_portable.cpp lib/wire/crc_vpclmul.cpp
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
endif()
