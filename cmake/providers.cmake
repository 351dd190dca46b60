# SPDX-License-Identifier: BSD-3-Clause
# Providers: each folder of providers that has a provider.cpp (lib/verbs/provider_manifest.hpp) is
# the room provider_FOLDER. A provider.cmake beside it may set
#   PROVIDER_ROOMS        rooms besides verbs, memory and base (tests/tidy reads this line, too)
#   PROVIDER_LIBRARIES    libraries to link, by name
#   PROVIDER_INCLUDES     folders of their headers
#   PROVIDER_DEFINITIONS  macros of its sources, NAME=VALUE
#   PROVIDER_LEAVE_OUT    sources that are not compiled on this machine
#   PROVIDER_MODULE       the Debian package that brings it: it is a module of libweft.so
#                         (manifest.cmake)
#   PROVIDER_MISSING      "LIBRARY: apt-get install PACKAGE" if a library is missing: the provider
#                         is not built
# The public handles look providers up in the registry, and providers implement lib/verbs: a cycle
# of links (not of includes), which static libraries may have: from handles to the list of
# providers, to a provider, and back to what it inherits.
weft_room(providers providers/registry verbs)
target_link_libraries(weft_verbs PUBLIC weft_providers)
set_target_properties(weft_providers PROPERTIES LINK_INTERFACE_MULTIPLICITY 3)

weft_folders_with(provider.cpp providers PROVIDERS)
set(BUILT_PROVIDERS)
foreach(PROVIDER ${PROVIDERS})
  foreach(KEY ROOMS LIBRARIES INCLUDES DEFINITIONS LEAVE_OUT MODULE MISSING)
    set(PROVIDER_${KEY})
  endforeach()
  set(FOLDER ${PROJECT_SOURCE_DIR}/providers/${PROVIDER})
  include(${FOLDER}/provider.cmake OPTIONAL)
  if(WEFT_CORE AND PROVIDER_MODULE)
    set(PROVIDER_MISSING "module in the core: ./dev build")
  endif()
  if(PROVIDER_MODULE)
    weft_declare_module(provider ${PROVIDER} ${PROVIDER_MODULE} "${PROVIDER_MISSING}"
                        "${PROVIDER_LIBRARIES}")
  else()
    set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${PROVIDER_LIBRARIES})
  endif()
  if(PROVIDER_MISSING)
    message(NOTICE "weft: no ${PROVIDER_MISSING}: the provider ${PROVIDER} is not built")
    continue()
  endif()
  set(TARGET weft_provider_${PROVIDER})
  weft_room(provider_${PROVIDER} providers/${PROVIDER} ${PROVIDER_ROOMS} verbs memory base)
  target_include_directories(${TARGET} SYSTEM PRIVATE ${PROVIDER_INCLUDES})
  target_link_libraries(${TARGET} PUBLIC ${PROVIDER_LIBRARIES})
  target_compile_definitions(${TARGET} PRIVATE ${PROVIDER_DEFINITIONS})
  if(PROVIDER_LEAVE_OUT)
    list(TRANSFORM PROVIDER_LEAVE_OUT PREPEND ${FOLDER}/)
    file(GLOB SOURCES ${PROVIDER_LEAVE_OUT})
    set_source_files_properties(${SOURCES} PROPERTIES HEADER_FILE_ONLY TRUE)
  endif()
  target_link_libraries(weft_providers PUBLIC ${TARGET})
  list(APPEND BUILT_PROVIDERS ${PROVIDER})
endforeach()
weft_registry(weft_providers HEADER lib/verbs/provider_manifest.hpp NAMESPACE weft::verbs
              TYPE ProviderFolder PREFIX provider_in FUNCTION provider_folders
              NAMES ${BUILT_PROVIDERS})
