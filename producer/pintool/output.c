// SPDX-License-Identifier: Apache-2.0
//
// `pintool ... > FILE` on a full disk must not look like success.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "producer/pintool/pintool.h"

int pintool_close_stdout(void)
{
    bool failed = fflush(stdout) != 0;
    int why = errno;
    if (!failed && !ferror(stdout))
        return PINTOOL_DONE;
    fprintf(stderr, "%s: standard output: %s\n", PINTOOL,
            failed ? strerror(why) : "could not be written");
    return PINTOOL_FAILED;
}
