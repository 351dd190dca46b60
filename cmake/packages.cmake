# SPDX-License-Identifier: BSD-3-Clause
# Debian packages, made by CPack of what is built (./dev package): each install component is one.
# Those whose part is not built here are left out. libweft-verbs keeps its libraries in
# LIBDIR/weft/drop-in, where the linker does not look, so it lies beside libibverbs1.
set(WEFT_PACKAGE_CONTACT "the weft authors <weft@invalid>" CACHE STRING
    "maintainer of the packages: NAME <ADDRESS>")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR weft)
set(CPACK_PACKAGE_CONTACT ${WEFT_PACKAGE_CONTACT})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_COMPONENTS_ALL)
set(THIS_LIBRARY "libweft0 (= ${PROJECT_VERSION})")

# The changelog that Debian's tools read; that for people is CHANGELOG.md in weft-doc.
string(TIMESTAMP BUILT "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/changelog CONTENT
"weft (${PROJECT_VERSION}) unstable; urgency=medium

  * Release ${PROJECT_VERSION}: see CHANGELOG.md.

 -- ${WEFT_PACKAGE_CONTACT}  ${BUILT}
")
execute_process(COMMAND gzip -9 -n -f changelog WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/debian)

# The library of libweft0, for dpkg-shlibdeps and the linker's cache.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/shlibs CONTENT
     "libweft ${PROJECT_VERSION_MAJOR} libweft0 (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/triggers CONTENT
     "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBWEFT0_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs
    ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_LIBWEFT-NCCL_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_LIBWEFT-CCL_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)

# weft_package(NAME SUMMARY [BINARY] [DEPENDS TEXT] [RECOMMENDS TEXT] [SUGGESTS TEXT] [SECTION TEXT]
# [TARGETS ...]):
# BINARY has machine code, whose libraries dpkg-shlibdeps adds to DEPENDS. No package if one of
# TARGETS is not built.
function(weft_package NAME SUMMARY)
  cmake_parse_arguments(IS BINARY "DEPENDS;RECOMMENDS;SUGGESTS;SECTION" TARGETS ${ARGN})
  foreach(TARGET ${IS_TARGETS})
    if(NOT TARGET ${TARGET})
      return()
    endif()
  endforeach()
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${NAME} PARENT_SCOPE)
  string(TOUPPER CPACK_DEBIAN_${NAME} PREFIX)
  set(${PREFIX}_PACKAGE_NAME ${NAME} PARENT_SCOPE)
  set(${PREFIX}_DESCRIPTION "${SUMMARY}\nweft is an RDMA transport library in user space: \
RoCEv2 and a scalable reliable datagram over sockets, shared memory, AF_XDP and DPDK." PARENT_SCOPE)
  set(${PREFIX}_PACKAGE_DEPENDS "${IS_DEPENDS}" PARENT_SCOPE)
  set(${PREFIX}_PACKAGE_RECOMMENDS "${IS_RECOMMENDS}" PARENT_SCOPE)
  set(${PREFIX}_PACKAGE_SUGGESTS "${IS_SUGGESTS}" PARENT_SCOPE)
  if(IS_SECTION)
    set(${PREFIX}_PACKAGE_SECTION ${IS_SECTION} PARENT_SCOPE)
  endif()
  if(IS_BINARY)
    set(${PREFIX}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  else()
    set(${PREFIX}_PACKAGE_ARCHITECTURE all PARENT_SCOPE)
  endif()
  install(FILES LICENSE DESTINATION share/doc/${NAME} RENAME copyright COMPONENT ${NAME})
  install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz DESTINATION share/doc/${NAME}
          COMPONENT ${NAME})
endfunction()

weft_package(libweft0 "RDMA transport library in user space" BINARY
             RECOMMENDS libweft-crypto SUGGESTS "libweft-dpdk, libweft-xdp, libweft-ibverbs")
weft_package(libweft-dev "Headers of libweft for C and C++, and its static library" BINARY
             SECTION libdevel DEPENDS ${THIS_LIBRARY}
             SUGGESTS "libisal-dev, libdpdk-dev, libxdp-dev, libibverbs-dev, libssl-dev, weft-doc")
weft_package(weft-tools "Programs of weft: measuring, observing, simulating, weft-run" BINARY
             SECTION net DEPENDS ${THIS_LIBRARY} SUGGESTS "libweft-verbs" TARGETS weft_info)
weft_package(libweft-dpdk "Port dpdk of libweft" BINARY DEPENDS ${THIS_LIBRARY}
             TARGETS weft_module_port_dpdk)
weft_package(libweft-xdp "Port af_xdp of libweft" BINARY DEPENDS ${THIS_LIBRARY}
             TARGETS weft_module_port_af_xdp)
weft_package(libweft-crypto "TLS for the rendezvous of libweft, by OpenSSL" BINARY
             DEPENDS ${THIS_LIBRARY} TARGETS weft_module_crypto_openssl)
weft_package(libweft-ibverbs "Provider ibverbs of libweft: devices of the kernel" BINARY
             DEPENDS "${THIS_LIBRARY}, libibverbs1" SUGGESTS librdmacm1
             TARGETS weft_module_provider_ibverbs)
weft_package(libweft-libfabric "Provider libfabric of libweft: endpoints of other transports" BINARY
             DEPENDS "${THIS_LIBRARY}, libfabric1" TARGETS weft_module_provider_libfabric)
weft_package(libweft-verbs "Drop-in libibverbs and librdmacm over libweft, for weft-run" BINARY
             DEPENDS ${THIS_LIBRARY} SUGGESTS weft-tools TARGETS weft_ibverbs_drop_in)
weft_package(libweft-fi "Providers of libfabric over libweft" BINARY DEPENDS ${THIS_LIBRARY}
             TARGETS weft_fi)
weft_package(libweft-nccl "Network plug-ins of NCCL and RCCL over libweft" BINARY
             DEPENDS ${THIS_LIBRARY} SUGGESTS weft-tools)
weft_package(libweft-ccl "NCCL's API over memory of the host, by libweft" BINARY
             DEPENDS ${THIS_LIBRARY} SUGGESTS libweft-dev TARGETS weft_ccl)
weft_package(python3-weft "Python package of libweft" SECTION python
             DEPENDS "libweft0 (>= ${PROJECT_VERSION}), python3 (>= 3.9), python3-cffi"
             SUGGESTS python3-numpy)
weft_package(weft-doc "Documents and examples of weft" SECTION doc)
install(DIRECTORY docs/ DESTINATION share/doc/weft COMPONENT weft-doc FILES_MATCHING PATTERN "*.md"
        PATTERN "*.svg" PATTERN history EXCLUDE)
install(FILES README.md CHANGELOG.md DESTINATION share/doc/weft COMPONENT weft-doc)
install(DIRECTORY examples DESTINATION share/doc/weft COMPONENT weft-doc)
include(CPack)

# All that is packaged.
add_custom_target(packaged DEPENDS weft weft_static programs modules)
foreach(TARGET weft_ccl weft_fi weft_fi_msg weft_nccl_net weft_rccl_net weft_paths
        weft_ibverbs_drop_in weft_rdmacm_drop_in weft_efa_drop_in)
  if(TARGET ${TARGET})
    add_dependencies(packaged ${TARGET})
  endif()
endforeach()
