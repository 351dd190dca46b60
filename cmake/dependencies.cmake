# SPDX-License-Identifier: BSD-3-Clause
# What the build finds on the machine. The core needs a compiler, CMake and threads; each missing
# optional library switches off its own part, with one line here.
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)

# isa-l: folding CRC-32, about 20 times zlib. Without it the portable table CRC is used.
find_path(ISAL_INCLUDE isa-l/crc.h)
find_library(ISAL_LIBRARY isal)
if(ISAL_INCLUDE AND ISAL_LIBRARY)
  set(WEFT_HAVE_ISAL 1)
else()
  set(WEFT_HAVE_ISAL 0)
  message(STATUS "weft: no isa-l (apt-get install libisal-dev): the ICRC uses the portable table")
endif()
