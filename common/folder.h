// SPDX-License-Identifier: Apache-2.0
//
// Open folders.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stddef.h>

// For CLEANUP(). Closes the folder unless it is NULL, and keeps errno.
static inline void closedirp(DIR **folder)
{
    int saved = errno;
    if (*folder)
        closedir(*folder);
    *folder = NULL;
    errno = saved;
}
