// SPDX-License-Identifier: BSD-3-Clause
// The cases of verbs_calls, one a file.
#pragma once

void check_opcodes();
void check_errors();
void check_events();
void check_memory();
