# SPDX-License-Identifier: BSD-3-Clause
# What a user installs: libweft.so (see weft.map.in for what it exports), its modules, libweft.a,
# the headers, a CMake package (weft::weft, weft::static, weft::internal, weft_add_module) and a
# pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(cmake/module/weft_add_module.cmake)
set(WEFT_VERSION ${PROJECT_VERSION})
# Beside libweft.so, as lib/base/module/module.cpp knows.
set(WEFT_MODULE_FOLDER weft/modules)

# All rooms but that of messages, which adapters link; libweft.a without the simulator's, of which
# programs of this tree alone know.
get_property(ROOMS GLOBAL PROPERTY WEFT_ROOMS)
list(REMOVE_ITEM ROOMS weft_message)
get_property(MODULES GLOBAL PROPERTY WEFT_MODULES)
get_property(LINKED_LIBRARIES GLOBAL PROPERTY WEFT_LIBRARIES)
get_property(MODULE_LIBRARIES GLOBAL PROPERTY WEFT_MODULE_LIBRARIES)

# One library of objects. Libraries by name, not by path: the installed package carries no path of
# this machine.
function(weft_product TARGET KIND OBJECTS LIBRARIES)
  add_library(${TARGET} ${KIND} ${OBJECTS})
  set_target_properties(${TARGET} PROPERTIES OUTPUT_NAME weft LINKER_LANGUAGE CXX)
  target_include_directories(${TARGET} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${TARGET} PUBLIC cxx_std_20)
  target_link_libraries(${TARGET} PRIVATE Threads::Threads ${LIBRARIES})
endfunction()

# libweft.a: every extension is linked in. Its lists name them, so that a program needs no option of
# the linker for whole archives.
set(LINKED_IN ${ROOMS})
list(REMOVE_ITEM LINKED_IN weft_sim weft_port_sim weft_c_sim weft_job)
list(TRANSFORM LINKED_IN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
weft_product(weft_static STATIC "${LINKED_IN}" "${LINKED_LIBRARIES};${MODULE_LIBRARIES}")
set_target_properties(weft_static PROPERTIES EXPORT_NAME static)
add_library(weft::static ALIAS weft_static)

# libweft.so: of an extension that is a module, its port.cpp or provider.cpp only, which says where
# the rest is, and so the lists of extensions are compiled from these.
set(SHARED_ROOMS ${ROOMS})
set(DESCRIPTIONS)
foreach(MODULE ${MODULES})
  weft_module_declaration(${MODULE})
  list(REMOVE_ITEM SHARED_ROOMS weft_${MODULE})
  string(TOUPPER WEFT_${KIND} PREFIX)
  set(FOLDER providers)
  if(NOT KIND STREQUAL provider)
    set(FOLDER providers/${KIND})
  endif()
  add_library(weft_description_${MODULE} OBJECT ${FOLDER}/${NAME}/${KIND}.cpp)
  target_include_directories(weft_description_${MODULE} PRIVATE ${PROJECT_SOURCE_DIR}
                                                                ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(weft_description_${MODULE} PRIVATE ${PREFIX}_PACKAGE="${PACKAGE}"
                                                                ${PREFIX}_MISSING="${MISSING}")
  list(APPEND DESCRIPTIONS $<TARGET_OBJECTS:weft_description_${MODULE}>)
endforeach()
list(TRANSFORM SHARED_ROOMS REPLACE "(.+)"
     "$<FILTER:$<TARGET_OBJECTS:\\1>,EXCLUDE,(port|provider|crypto)_folders>")
weft_product(weft SHARED "${SHARED_ROOMS};${DESCRIPTIONS}" "${LINKED_LIBRARIES}")
target_include_directories(weft PRIVATE ${PROJECT_SOURCE_DIR})
weft_registry(weft HEADER lib/transport/port_kind.hpp NAMESPACE weft::port
              TYPE PortFolder PREFIX port_in FUNCTION port_folders NAMES ${PORTS})
weft_registry(weft HEADER lib/verbs/provider_manifest.hpp NAMESPACE weft::verbs
              TYPE ProviderFolder PREFIX provider_in FUNCTION provider_folders
              NAMES ${PROVIDERS})
weft_registry(weft HEADER lib/crypto/library.hpp NAMESPACE weft::crypto TYPE CryptoFolder
              PREFIX crypto_in FUNCTION crypto_folders NAMES ${CRYPTO_FOLDERS})
add_library(weft::weft ALIAS weft)
set(WEFT_INTERNAL_NAMES)
foreach(ROOM base cm collective congestion crypto driver job memory middleware port roce
        roce_provider secure sim software srd srd_provider transport verbs wire)
  foreach(WHAT "" "typeinfo?for?" "typeinfo?name?for?" "vtable?for?")
    string(APPEND WEFT_INTERNAL_NAMES "      ${WHAT}weft::${ROOM}::*;\n")
  endforeach()
endforeach()
set(MAP ${PROJECT_BINARY_DIR}/weft.map)
configure_file(cmake/weft.map.in ${MAP} @ONLY)
set_target_properties(weft PROPERTIES VERSION ${PROJECT_VERSION} LINK_DEPENDS ${MAP}
                                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_options(weft PRIVATE LINKER:--version-script=${MAP} LINKER:-Bsymbolic-functions
                                 LINKER:--as-needed)
if(NOT WEFT_SANITIZE)
  target_link_options(weft PRIVATE LINKER:-z,defs)
endif()

# libweft.so and the headers of rooms: for modules, and for programs of this tree.
add_library(weft_internal INTERFACE)
add_library(weft::internal ALIAS weft_internal)
set_target_properties(weft_internal PROPERTIES EXPORT_NAME internal)
target_include_directories(weft_internal INTERFACE
                           $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/weft-internal>)
target_link_libraries(weft_internal INTERFACE weft)

add_custom_target(modules)
foreach(MODULE ${MODULES})
  weft_module_declaration(${MODULE})
  if(MISSING)
    continue()
  endif()
  weft_add_module(${KIND} ${NAME} $<TARGET_OBJECTS:weft_${MODULE}>)
  set(TARGET weft_module_${MODULE})
  target_link_libraries(${TARGET} PRIVATE ${LIBRARIES} Threads::Threads)
  if(NOT WEFT_SANITIZE)
    target_link_options(${TARGET} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${TARGET} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                        INSTALL_RPATH "$ORIGIN/../.." LIBRARY_OUTPUT_DIRECTORY
                        ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${WEFT_MODULE_FOLDER})
  add_dependencies(modules ${TARGET})
  install(TARGETS ${TARGET} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${WEFT_MODULE_FOLDER}
          COMPONENT ${PACKAGE})
endforeach()

# Components have the names of Debian packages.
install(TARGETS weft EXPORT weft_targets LIBRARY COMPONENT libweft0
        NAMELINK_COMPONENT libweft-dev)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libweft-dev)
install(TARGETS weft_static weft_internal EXPORT weft_targets)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY scenarios/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/scenarios
        COMPONENT weft-tools)
# The conformance scripts of `weft_script --against HOST`.
install(DIRECTORY tests/script/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/scripts
        COMPONENT weft-tools FILES_MATCHING PATTERN "*.script")
# What a module includes of the rooms.
foreach(ROOM_HEADERS base:check base/module:module transport:frame,lost_peers,port,port_kind
        verbs:cm,device_spec,inspection,provider,provider_manifest)
  string(REGEX REPLACE ":.*" "" ROOM ${ROOM_HEADERS})
  string(REGEX REPLACE ".*:" "" HEADERS ${ROOM_HEADERS})
  string(REPLACE "," ";" HEADERS ${HEADERS})
  list(TRANSFORM HEADERS REPLACE "(.+)" "lib/${ROOM}/\\1.hpp")
  install(FILES ${HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft-internal/lib/${ROOM})
endforeach()

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weft_targets NAMESPACE weft:: FILE weft_targets.cmake DESTINATION ${PACKAGE_DIR})
configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
                              INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/weft-config-version.cmake DESTINATION ${PACKAGE_DIR})
install(DIRECTORY cmake/module/ DESTINATION ${PACKAGE_DIR})

set(WEFT_PC_PRIVATE "-pthread")
foreach(LIBRARY ${LINKED_LIBRARIES} ${MODULE_LIBRARIES})
  string(APPEND WEFT_PC_PRIVATE " -l${LIBRARY}")
endforeach()
file(RELATIVE_PATH WEFT_PC_INCLUDE /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig
     /prefix/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Programs find libweft.so where it is installed, and the tree may be moved.
file(RELATIVE_PATH WEFT_LIBRARIES_FROM_PROGRAMS ${CMAKE_INSTALL_FULL_BINDIR}
     ${CMAKE_INSTALL_FULL_LIBDIR})
set(WEFT_PROGRAM_RPATH "$ORIGIN/${WEFT_LIBRARIES_FROM_PROGRAMS}")
