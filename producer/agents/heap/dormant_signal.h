// SPDX-License-Identifier: Apache-2.0
//
// Takes the signal that a dormant program waits for, and hides it from the program.
#pragma once

#include <signal.h>
#include <stdbool.h>

// Installs the handler, and makes the mapping by which recorders recognise a dormant process. Call
// it after first_objects_note(). Returns false, with nothing changed, if the program uses the
// signal or the mapping cannot be made.
bool dormant_signal_take(int number, void (*handler)(int, siginfo_t *, void *));

// Returns whether dormant_signal_take() would find the signal free.
bool dormant_signal_is_free(int number);
