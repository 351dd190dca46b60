# SPDX-License-Identifier: BSD-3-Clause
# What the build finds on the machine. The core needs a compiler, CMake and threads; each missing
# optional library switches off its own part, with one line here.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# isa-l: folding CRC-32, about 20 times zlib. Without it the portable table CRC is used.
find_path(ISAL_INCLUDE isa-l/crc.h)
find_library(ISAL_LIBRARY isal)
if(ISAL_INCLUDE AND ISAL_LIBRARY)
  set(WEFT_HAVE_ISAL 1)
else()
  set(WEFT_HAVE_ISAL 0)
  message(NOTICE "weft: no isa-l (apt-get install libisal-dev): the ICRC uses the portable table")
endif()

# For the libraries of ports (providers/port/NAME/port.cmake).
find_package(PkgConfig QUIET)

# PyTorch 1.13, whose interface for process groups is not that of 2.x: the backend "weft" of
# torch.distributed. The module is for the Python of the system, for which Debian packages PyTorch.
# Its loader brings no sanitizer's run time, and clang does not take PyTorch's headers as C++20.
find_program(WEFT_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_path(TORCH_INCLUDE torch/csrc/distributed/c10d/ProcessGroup.hpp)
find_path(PYBIND11_INCLUDE pybind11/pybind11.h)
find_library(TORCH_PYTHON_LIBRARY torch_python)
find_library(TORCH_CPU_LIBRARY torch_cpu)
find_library(TORCH_C10_LIBRARY c10)
set(WEFT_HAVE_TORCH 0)
set(TORCH_VERSION_FILE ${TORCH_INCLUDE}/torch/csrc/api/include/torch/version.h)
if(EXISTS ${TORCH_VERSION_FILE})
  file(STRINGS ${TORCH_VERSION_FILE} TORCH_VERSION REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
endif()
# The tests' Python, which may be another one if the cache says so, has to find PyTorch, too.
set(PYTHON_FINDS_TORCH 0)
if(WEFT_PYTHON)
  execute_process(COMMAND ${WEFT_PYTHON} -c "import importlib.util as u
print(int(u.find_spec('torch') is not None), end='')"
                  OUTPUT_VARIABLE PYTHON_FINDS_TORCH ERROR_QUIET)
endif()
if(PYTHON_FINDS_TORCH AND TORCH_VERSION MATCHES "MAJOR 1;.*MINOR 13$" AND PYBIND11_INCLUDE
   AND TORCH_PYTHON_LIBRARY AND TORCH_CPU_LIBRARY AND TORCH_C10_LIBRARY AND NOT WEFT_SANITIZE
   AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND ${WEFT_PYTHON} -c "import sysconfig as s
print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'), sep=';', end='')"
                  OUTPUT_VARIABLE WEFT_PYTHON_FACTS)
  list(GET WEFT_PYTHON_FACTS 0 WEFT_PYTHON_INCLUDE)
  list(GET WEFT_PYTHON_FACTS 1 WEFT_PYTHON_SUFFIX)
  set(WEFT_HAVE_TORCH 1)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT WEFT_SANITIZE)
  message(NOTICE "weft: no PyTorch 1.13 (apt-get install python3-torch libtorch-dev pybind11-dev, "
                 "630 MB): its backend \"weft\" is not built")
endif()

# libfabric, whose providers lib/adapters/fi are.
find_path(LIBFABRIC_INCLUDE rdma/providers/fi_prov.h)
find_library(LIBFABRIC_LIBRARY fabric)
set(WEFT_HAVE_LIBFABRIC 0)
if(LIBFABRIC_INCLUDE AND LIBFABRIC_LIBRARY)
  set(WEFT_HAVE_LIBFABRIC 1)
else()
  message(NOTICE "weft: no libfabric (apt-get install libfabric-dev): its providers weft and "
                 "weft_msg are not built")
endif()

# cpp-httplib, by which weft_stat --serve answers.
if(PKG_CONFIG_FOUND)
  pkg_check_modules(HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
endif()
if(NOT HTTPLIB_FOUND)
  message(NOTICE "weft: no cpp-httplib (apt-get install libcpp-httplib-dev): weft_stat --serve is "
                 "not built")
endif()

# expat, by which weft_coll reads plans of MSCCL.
find_package(EXPAT QUIET)
if(EXPAT_FOUND)
  set(WEFT_HAVE_EXPAT 1)
else()
  set(WEFT_HAVE_EXPAT 0)
  message(NOTICE "weft: no expat (apt-get install libexpat1-dev): weft_coll reads no plans of "
                 "MSCCL")
endif()

# Tests: Catch2 and rapidcheck.
if(WEFT_TESTS)
  find_package(Catch2 QUIET)
  find_library(RAPIDCHECK_LIBRARY rapidcheck)
  if(NOT Catch2_FOUND OR NOT RAPIDCHECK_LIBRARY)
    message(NOTICE "weft: no Catch2 or rapidcheck (apt-get install catch2 librapidcheck-dev): "
                   "the tests are not built")
    set(WEFT_TESTS OFF)
  endif()
endif()

# Programs in bench/: CLI11 and nlohmann-json, both header-only.
find_path(CLI11_INCLUDE CLI/CLI.hpp)
find_path(JSON_INCLUDE nlohmann/json.hpp)
if(CLI11_INCLUDE AND JSON_INCLUDE)
  set(WEFT_HAVE_CLI 1)
else()
  set(WEFT_HAVE_CLI 0)
  message(NOTICE "weft: no CLI11 or nlohmann-json (apt-get install libcli11-dev "
                 "nlohmann-json3-dev): the programs of bench/ are not built")
endif()
