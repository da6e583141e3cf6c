// SPDX-License-Identifier: Apache-2.0
//
// Included by every unit test: cmocka, after the headers that it needs.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Skips the test, and logs the reason.
#define skip_because(why)                                                                          \
    do {                                                                                           \
        print_message("skipped: %s\n", why);                                                       \
        skip();                                                                                    \
    } while (0)
