// SPDX-License-Identifier: BSD-3-Clause
// The cases of verbs_calls, one a file.
#pragma once

void check_cycles();
void check_devices();
void check_errors();
void check_events();
void check_manual();
void check_memory();
void check_misuse();
void check_opcodes();
void check_polling();
void check_processes();
void check_signals();
void check_srd();
void check_transitions();
void transfer_endlessly();
