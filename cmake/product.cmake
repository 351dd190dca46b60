# SPDX-License-Identifier: BSD-3-Clause
# What a user installs: libweft.so (only the public API is exported, see weft.map), libweft.a, the
# headers, a CMake package (weft::weft, weft::weft_static) and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All rooms but the simulator's and that of adapters; the libraries that they need, by name.
get_property(ROOMS GLOBAL PROPERTY WEFT_ROOMS)
list(REMOVE_ITEM ROOMS weft_sim weft_port_sim weft_message)
list(TRANSFORM ROOMS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE OBJECTS)
get_property(LIBRARIES GLOBAL PROPERTY WEFT_LIBRARIES)

# One library of every room's objects. By name, not by path: the installed package carries no path
# of this machine.
function(weft_product TARGET KIND)
  add_library(${TARGET} ${KIND} ${OBJECTS})
  set_target_properties(${TARGET} PROPERTIES OUTPUT_NAME weft LINKER_LANGUAGE CXX)
  target_include_directories(${TARGET} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${TARGET} PUBLIC cxx_std_20)
  target_link_libraries(${TARGET} PRIVATE Threads::Threads ${LIBRARIES})
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
foreach(LIBRARY ${LIBRARIES})
  string(APPEND WEFT_PC_PRIVATE " -l${LIBRARY}")
endforeach()
file(RELATIVE_PATH WEFT_PC_INCLUDE /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig
     /prefix/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
