# SPDX-License-Identifier: BSD-3-Clause
# Modules of libweft.so (lib/base/module/module.hpp), for this tree and, where it is installed, for
# others.
#
# weft_add_module(KIND NAME SOURCE...): the module KIND_NAME.so (target weft_module_KIND_NAME) of
# sources that register the port (KIND: port) or provider NAME by WEFT_PORT or WEFT_PROVIDER. It is
# bound to the version of libweft.so that it is built with.
function(weft_add_module KIND NAME)
  set(FOLDER ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  if(KIND STREQUAL port)
    set(HEADER lib/transport/port_kind.hpp)
    set(NAMESPACE weft::port)
    set(TYPE transport::PortKind)
  elseif(KIND STREQUAL crypto)
    set(HEADER lib/crypto/library.hpp)
    set(NAMESPACE weft::crypto)
    set(TYPE Library)
  else()
    set(HEADER lib/verbs/provider_manifest.hpp)
    set(NAMESPACE weft::verbs)
    set(TYPE Provider)
  endif()
  set(TARGET weft_module_${KIND}_${NAME})
  set(DESCRIPTION ${CMAKE_CURRENT_BINARY_DIR}/modules/${KIND}_${NAME}.cpp)
  configure_file(${FOLDER}/module.cpp.in ${DESCRIPTION} @ONLY)
  add_library(${TARGET} MODULE ${DESCRIPTION} ${ARGN})
  target_link_libraries(${TARGET} PRIVATE weft::internal)
  target_link_options(${TARGET} PRIVATE LINKER:--version-script=${FOLDER}/module.map
                                        LINKER:--as-needed)
  set_target_properties(${TARGET} PROPERTIES PREFIX "" OUTPUT_NAME ${KIND}_${NAME}
                        LINKER_LANGUAGE CXX LINK_DEPENDS ${FOLDER}/module.map)
endfunction()
