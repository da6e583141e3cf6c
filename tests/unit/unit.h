// SPDX-License-Identifier: Apache-2.0
//
// What every unit test includes: cmocka with the headers that it wants in front of it.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Skips the test, and says in the log what is missing.
#define skip_because(why)                                                                          \
    do {                                                                                           \
        print_message("skipped: %s\n", why);                                                       \
        skip();                                                                                    \
    } while (0)
