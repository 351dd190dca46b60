# SPDX-License-Identifier: BSD-3-Clause
# What a user installs: libweft.so (only the public API is exported, see weft.map), libweft.a, the
# headers, a CMake package (weft::weft, weft::weft_static) and a pkg-config file. It exists once the
# rooms that stand behind the public API have sources.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(WEFT_PRODUCT_ROOMS base wire memory congestion transport roce srd driver port_udp port_shm
                       port_ethernet port_af_packet port_middleware verbs software provider_roce
                       provider_srd providers collective)
if(WEFT_HAVE_DPDK)
  list(APPEND WEFT_PRODUCT_ROOMS port_dpdk)
endif()
if(WEFT_HAVE_AF_XDP)
  list(APPEND WEFT_PRODUCT_ROOMS port_af_xdp)
endif()
if(WEFT_HAVE_IBVERBS)
  list(APPEND WEFT_PRODUCT_ROOMS provider_ibverbs)
endif()
set(OBJECTS)
set(MISSING)
foreach(ROOM ${WEFT_PRODUCT_ROOMS})
  get_target_property(KIND weft_${ROOM} TYPE)
  if(KIND STREQUAL "STATIC_LIBRARY")
    list(APPEND OBJECTS $<TARGET_OBJECTS:weft_${ROOM}>)
  else()
    list(APPEND MISSING ${ROOM})
  endif()
endforeach()
if("verbs" IN_LIST MISSING OR "provider_roce" IN_LIST MISSING)
  message(NOTICE "weft: libweft is not built: no sources in ${MISSING}")
  set(WEFT_PRODUCT 0)
  return()
endif()
set(WEFT_PRODUCT 1)

# One library of every room's objects. By name, not by path: the installed package carries no path
# of this machine.
function(weft_product TARGET KIND)
  add_library(${TARGET} ${KIND} ${OBJECTS})
  set_target_properties(${TARGET} PROPERTIES OUTPUT_NAME weft LINKER_LANGUAGE CXX)
  target_include_directories(${TARGET} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${TARGET} PUBLIC cxx_std_20)
  target_link_libraries(${TARGET} PRIVATE Threads::Threads)
  if(WEFT_HAVE_ISAL)
    target_link_libraries(${TARGET} PRIVATE isal)
  endif()
  if(WEFT_HAVE_DPDK)
    target_link_libraries(${TARGET} PRIVATE ${WEFT_DPDK_LIBRARIES})
  endif()
  if(WEFT_HAVE_AF_XDP)
    target_link_libraries(${TARGET} PRIVATE ${WEFT_XDP_LIBRARIES})
  endif()
  if(WEFT_HAVE_IBVERBS)
    target_link_libraries(${TARGET} PRIVATE ${CMAKE_DL_LIBS})
  endif()
endfunction()

weft_product(weft SHARED)
weft_product(weft_static STATIC)
add_library(weft::weft ALIAS weft)
set(MAP ${PROJECT_SOURCE_DIR}/cmake/weft.map)
set_target_properties(weft PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${MAP}
                                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_options(weft PRIVATE LINKER:--version-script=${MAP})
if(NOT WEFT_SANITIZE)
  target_link_options(weft PRIVATE LINKER:-z,defs)
endif()

install(TARGETS weft weft_static EXPORT weft_targets)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.hpp")

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft_targets NAMESPACE weft:: FILE weft_targets.cmake DESTINATION ${PACKAGE_DIR})
configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
                              INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/weft-config-version.cmake DESTINATION ${PACKAGE_DIR})

set(WEFT_PC_PRIVATE "-pthread")
if(WEFT_HAVE_ISAL)
  string(APPEND WEFT_PC_PRIVATE " -lisal")
endif()
if(WEFT_HAVE_DPDK)
  list(TRANSFORM WEFT_DPDK_LIBRARIES PREPEND " -l" OUTPUT_VARIABLE FLAGS)
  string(JOIN "" FLAGS ${FLAGS})
  string(APPEND WEFT_PC_PRIVATE "${FLAGS}")
endif()
if(WEFT_HAVE_AF_XDP)
  string(APPEND WEFT_PC_PRIVATE " -lxdp -lbpf")
endif()
if(WEFT_HAVE_IBVERBS)
  string(APPEND WEFT_PC_PRIVATE " -ldl")
endif()
file(RELATIVE_PATH WEFT_PC_INCLUDE /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig
     /prefix/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
