# SPDX-License-Identifier: BSD-3-Clause
# Ports: each folder of providers/port that has a port.cpp (lib/transport/port_kind.hpp) is the room
# port_FOLDER and is linked to the software providers. A port.cmake beside it may set
#   PORT_ROOMS      rooms besides transport, wire, memory and base (tests/tidy reads this line, too)
#   PORT_LIBRARIES  libraries to link, by name
#   PORT_INCLUDES   folders of their headers
#   PORT_OPTIONS    compiler flags that their headers need
#   PORT_MODULE     the Debian package that brings it: it is a module of libweft.so (manifest.cmake)
#   PORT_MISSING    "LIBRARY: apt-get install PACKAGE" if one is missing: the port is not built then
function(weft_port NAME)
  set(FOLDER providers/port/${NAME})
  foreach(KEY ROOMS LIBRARIES INCLUDES OPTIONS MODULE MISSING)
    set(PORT_${KEY})
  endforeach()
  include(${PROJECT_SOURCE_DIR}/${FOLDER}/port.cmake OPTIONAL)
  set(TARGET weft_port_${NAME})
  if(WEFT_CORE AND PORT_MODULE)
    set(PORT_MISSING "module in the core: ./dev build")
  endif()
  if(PORT_MISSING)
    message(NOTICE "weft: no ${PORT_MISSING}: the port ${NAME} is not built")
    add_library(${TARGET} STATIC ${FOLDER}/port.cpp)
    target_compile_definitions(${TARGET} PRIVATE WEFT_PORT_MISSING="${PORT_MISSING}")
    target_link_libraries(${TARGET} PUBLIC weft_transport weft_base)
    set_property(GLOBAL APPEND PROPERTY WEFT_ROOMS ${TARGET})
  else()
    weft_room(port_${NAME} ${FOLDER} ${PORT_ROOMS} transport wire memory base)
    target_include_directories(${TARGET} SYSTEM PRIVATE ${PORT_INCLUDES})
    target_compile_options(${TARGET} PRIVATE ${PORT_OPTIONS})
    target_link_libraries(${TARGET} PUBLIC ${PORT_LIBRARIES})
  endif()
  if(PORT_MODULE)
    weft_declare_module(port ${NAME} ${PORT_MODULE} "${PORT_MISSING}" "${PORT_LIBRARIES}")
  else()
    set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${PORT_LIBRARIES})
  endif()
  set_target_properties(${TARGET} PROPERTIES WEFT_MISSING "${PORT_MISSING}"
                        WEFT_INCLUDES "${PORT_INCLUDES}" WEFT_OPTIONS "${PORT_OPTIONS}")
  target_link_libraries(weft_software PUBLIC ${TARGET})
endfunction()

# True unless NAME is a port that is not built.
function(weft_port_is_built NAME RESULT)
  set(MISSING)
  if(TARGET weft_port_${NAME})
    get_target_property(MISSING weft_port_${NAME} WEFT_MISSING)
  endif()
  if(MISSING)
    set(${RESULT} FALSE PARENT_SCOPE)
  else()
    set(${RESULT} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Lets PROGRAM include headers of port NAME, if there is one of that name. RESULT: whether compiler
# flags of the port apply, so that no precompiled header fits.
function(weft_compile_as_port PROGRAM NAME RESULT)
  set(${RESULT} FALSE PARENT_SCOPE)
  if(NOT TARGET weft_port_${NAME})
    return()
  endif()
  get_target_property(INCLUDES weft_port_${NAME} WEFT_INCLUDES)
  get_target_property(OPTIONS weft_port_${NAME} WEFT_OPTIONS)
  if(INCLUDES)
    target_include_directories(${PROGRAM} SYSTEM PRIVATE ${INCLUDES})
  endif()
  if(OPTIONS)
    target_compile_options(${PROGRAM} PRIVATE ${OPTIONS})
    set(${RESULT} TRUE PARENT_SCOPE)
  endif()
endfunction()

weft_folders_with(port.cpp providers/port PORTS)
foreach(PORT ${PORTS})
  weft_port(${PORT})
endforeach()
weft_registry(weft_software HEADER lib/transport/port_kind.hpp NAMESPACE weft::port TYPE PortFolder
              PREFIX port_in FUNCTION port_folders NAMES ${PORTS})
