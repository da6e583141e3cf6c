// SPDX-License-Identifier: Apache-2.0
//
// The signal that a dormant program waits for: whose it is, and what the program sees of it.
#pragma once

#include <signal.h>
#include <stdbool.h>

// Takes the signal, and from there on shows to the outside that it is taken. False: somebody has it
// already, or it cannot be shown; then nothing is changed. After first_objects_note().
bool dormant_signal_take(int number, void (*handler)(int, siginfo_t *, void *));

// Whether dormant_signal_take() would find it free.
bool dormant_signal_is_free(int number);
