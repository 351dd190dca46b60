# SPDX-License-Identifier: BSD-3-Clause
# cmake -DSOURCE=TREE -DOUT=FILE -P commit.cmake: writes FILE, a source with the commit of TREE
# (bench/perftest/command_line.hpp), or "unknown" outside of a repository.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
file(WRITE ${OUT} "// Written by cmake/commit.cmake.
#include \"bench/perftest/command_line.hpp\"

const char* const weft::bench::kCommit = \"${COMMIT}\";
")
