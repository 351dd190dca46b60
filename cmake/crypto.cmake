# SPDX-License-Identifier: BSD-3-Clause
# Cryptographic libraries: each folder of providers/crypto that has a crypto.cpp
# (lib/crypto/library.hpp) is the room crypto_FOLDER and a module of libweft.so. Its crypto.cmake
# sets
#   CRYPTO_MODULE     the Debian package that brings it (manifest.cmake)
#   CRYPTO_LIBRARIES  libraries to link, by name
#   CRYPTO_INCLUDES   folders of their headers
#   CRYPTO_MISSING    "LIBRARY: apt-get install PACKAGE" if it is missing: it is not built then
# The room crypto looks them up in the registry, and they implement what it declares: a cycle of
# links (not of includes), as with providers.
function(weft_crypto NAME)
  set(FOLDER providers/crypto/${NAME})
  foreach(KEY LIBRARIES INCLUDES MODULE MISSING)
    set(CRYPTO_${KEY})
  endforeach()
  include(${PROJECT_SOURCE_DIR}/${FOLDER}/crypto.cmake)
  set(TARGET weft_crypto_${NAME})
  if(CRYPTO_MISSING)
    message(NOTICE "weft: no ${CRYPTO_MISSING}: connections have no TLS, `insecure` alone")
    add_library(${TARGET} STATIC ${FOLDER}/crypto.cpp)
    target_compile_definitions(${TARGET} PRIVATE WEFT_CRYPTO_MISSING="${CRYPTO_MISSING}")
    target_link_libraries(${TARGET} PUBLIC weft_crypto weft_base)
    set_property(GLOBAL APPEND PROPERTY WEFT_ROOMS ${TARGET})
  else()
    weft_room(crypto_${NAME} ${FOLDER} crypto base)
    target_include_directories(${TARGET} SYSTEM PRIVATE ${CRYPTO_INCLUDES})
    target_link_libraries(${TARGET} PUBLIC ${CRYPTO_LIBRARIES})
  endif()
  weft_declare_module(crypto ${NAME} ${CRYPTO_MODULE} "${CRYPTO_MISSING}" "${CRYPTO_LIBRARIES}")
  target_link_libraries(weft_crypto PUBLIC ${TARGET})
endfunction()

weft_folders_with(crypto.cpp providers/crypto CRYPTO_FOLDERS)
foreach(NAME ${CRYPTO_FOLDERS})
  weft_crypto(${NAME})
endforeach()
weft_registry(weft_crypto HEADER lib/crypto/library.hpp NAMESPACE weft::crypto TYPE CryptoFolder
              PREFIX crypto_in FUNCTION crypto_folders NAMES ${CRYPTO_FOLDERS})
