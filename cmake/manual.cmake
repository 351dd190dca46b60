# SPDX-License-Identifier: BSD-3-Clause
# Manual pages and completions of shells: programs.txt lists the programs of tools/ and bench/;
# installation writes a page and completions of each installed one, weft_NAME, from its --help
# (tools/docs/man.py, completion.py). No python3: none.
get_property(WEFT_PROGRAMS GLOBAL PROPERTY WEFT_PROGRAMS)
string(JOIN "\n" LINES ${WEFT_PROGRAMS})
file(WRITE ${PROJECT_BINARY_DIR}/programs.txt "${LINES}\n")

find_program(WEFT_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(WEFT_PYTHON python3)
if(WEFT_PROGRAMS AND WEFT_PYTHON)
  install(CODE "execute_process(
    COMMAND ${WEFT_PYTHON} ${PROJECT_SOURCE_DIR}/tools/docs/man.py
            --installed ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/manual
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${WEFT_PYTHON} ${PROJECT_SOURCE_DIR}/tools/docs/completion.py
            ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/completion
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)" COMPONENT weft-tools)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/ DESTINATION ${CMAKE_INSTALL_MANDIR}
          COMPONENT weft-tools)
  foreach(PAIR bash:bash-completion/completions zsh:zsh/vendor-completions
               fish:fish/vendor_completions.d)
    string(REPLACE : ";" PAIR ${PAIR})
    list(GET PAIR 0 SHELL)
    list(GET PAIR 1 FOLDER)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/completion/${SHELL}/
            DESTINATION ${CMAKE_INSTALL_DATADIR}/${FOLDER} COMPONENT weft-tools)
  endforeach()
endif()
